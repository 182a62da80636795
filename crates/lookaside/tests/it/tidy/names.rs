//! Checks that names that were replaced by standard terms are not reintroduced.

use super::{assert_none, tracked_texts};

/// Types, traits and modules, with what they are called now.
const RETIRED_TYPES: &[(&str, &str)] = &[
    // Each of these had meant many things.
    ("Ask", "KeyQuery, BlockingQuery"),
    (
        "Job",
        "RunJob, BlockingJob, SerialJob, QueryJob, JanitorJob",
    ),
    (
        "Place",
        "ListenAddress, FileIdentity, ReplyTarget, RelationLocation",
    ),
    ("Plan", "LookupPlan, ModelPlan, LoadPlan, PipelinePlan"),
    ("Aftermath", "DeferredWakes"),
    ("AskSqlite", "Fallback"),
    ("Attendant", "Executor"),
    ("Bell", "Parker"),
    ("Dismissed", "Rejected"),
    ("Drive", "Driver"),
    ("Entrance", "Submitter"),
    ("Errand", "CancelConnection, KillConnection"),
    ("Face", "Responder"),
    ("Flaw", "FieldError"),
    ("Keeper", "Reloader, Janitor"),
    ("Later", "DeferredAnswer"),
    ("Manner", "ResponseFraming"),
    ("Memo", "ProbeCache"),
    ("Misses", "MissBatch"),
    ("Moment", "Expiry"),
    ("Noted", "LogFields"),
    ("Patience", "Timeouts"),
    ("Press", "BodyCompressor"),
    ("Seat", "Waiter"),
    ("StandIns", "StaleAnswers"),
    ("Stock", "CachedServer"),
    ("Talk", "Protocol"),
    ("Teller", "DocumentThread"),
    ("Tenure", "Lifetime"),
    ("TryTurn", "Flight"),
    ("Vacancy", "Maintenance"),
    ("Verb", "StatementKind"),
    ("Visit", "RequestContext"),
    ("Whereabouts", "CacheEnvironment"),
    ("Whose", "Backend"),
    ("Wishes", "ClusterOptions"),
];

/// Functions, with their replacements.
const RETIRED_FUNCTIONS: &[(&str, &str)] = &[
    ("answer_elsewhere", "answer_deferred"),
    ("at_hand", "try_local"),
    ("dawn", "idle_parker"),
    ("depart", "submit"),
    ("held_now", "validator_strength"),
    ("hire", "start_maintenance"),
    ("next_moment", "next_sequence"),
    ("open_mailbox", "drain_inbox"),
    ("roll_back", "rollback"),
    ("stand_in", "stale_or"),
    ("told_apart", "with_unique_prefix"),
    ("way_out", "hint"),
];

/// Files, folders and modules, with their replacements.
const RETIRED_MODULES: &[(&str, &str)] = &[
    ("bell", "parker"),
    ("books", "requests"),
    ("elsewhere", "provider, remote"),
    ("errand", "auxiliary"),
    ("face", "nonblocking, blocking, poll"),
    ("flaw", "field_error"),
    ("hall", "state"),
    ("keeper", "reloader, janitor"),
    ("marks", "file_stamp"),
    ("memo", "probe_cache"),
    ("offload", "async_api"),
    ("outflow", "event_body"),
    ("seal", "install"),
    ("standing", "server_role"),
    ("station", "executor"),
    ("stock", "installed"),
    ("teller", "document_thread"),
    ("tenure", "lifetime"),
    ("travel", "serial"),
    ("way_out", "hint"),
    ("wishes", "options"),
];

/// The name that a line of code defines, with its keyword.
fn definition(line: &str) -> Option<(&str, &str)> {
    let keywords = ["struct", "enum", "trait", "type", "union", "mod", "fn"];
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if keywords.contains(&word) {
            let name = words.next()?;
            let end = name.find(|char: char| !char.is_alphanumeric() && char != '_');
            return Some((word, &name[..end.unwrap_or(name.len())]));
        }
        // Only modifiers may precede the keyword.
        if !word.starts_with("pub") && !["async", "const", "unsafe", "extern"].contains(&word) {
            return None;
        }
    }
    None
}

/// The replacement of a retired name.
fn replacement(keyword: &str, name: &str) -> Option<&'static str> {
    let table = match keyword {
        "fn" => RETIRED_FUNCTIONS,
        "mod" => RETIRED_MODULES,
        _ => RETIRED_TYPES,
    };
    let found = table.iter().find(|(retired, _)| *retired == name);
    found.map(|(_, now)| *now)
}

#[test]
fn retired_names_do_not_come_back() {
    let mut found = Vec::new();
    for (file, text) in tracked_texts() {
        let Some(path) = file.strip_suffix(".rs") else {
            continue;
        };
        for part in path.split('/') {
            if let Some(now) = replacement("mod", part) {
                found.push(format!("{file}: {part}, now {now}"));
            }
        }
        for (number, line) in (1..).zip(text.lines()) {
            if let Some((keyword, name)) = definition(line)
                && let Some(now) = replacement(keyword, name)
            {
                found.push(format!("{file}:{number}: {name}, now {now}"));
            }
        }
    }
    assert_none(found, "a name that was replaced");
}

#[test]
fn definitions_are_found_whatever_stands_before_them() {
    for (line, expected) in [
        ("pub(crate) struct Bell<T> {", Some(("struct", "Bell"))),
        ("    pub async fn dawn(&self) {", Some(("fn", "dawn"))),
        ("mod face;", Some(("mod", "face"))),
        ("type Errand: Upgrade;", Some(("type", "Errand"))),
        ("// struct Bell is gone", None),
        ("let fn_name = 1;", None),
        ("use crate::mod_name;", None),
    ] {
        assert_eq!(definition(line), expected, "{line}");
    }
    assert_eq!(replacement("struct", "Bell"), Some("Parker"));
    assert_eq!(replacement("fn", "Bell"), None);
}
