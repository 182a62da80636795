//! What a change feed needs, and which of it is missing.

use std::io;

use super::provider::FeedProvider;
use super::server::{PublicationFacts, ServerFacts, SlotFacts, TableFacts};
use crate::cli::output::printable;

/// The first version whose slots and functions the feed uses.
const VERSION_MIN: i64 = 14_00_00;

/// One of the things that a change feed needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) state: RequirementState,
    pub(crate) text: String,
    /// What adds it.
    pub(crate) help: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequirementState {
    Met,
    Missing,
    /// Worth knowing, but no obstacle.
    Note,
}

/// Everything that was read about a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) facts: &'a ServerFacts,
    pub(crate) publication: Option<&'a PublicationFacts>,
    /// The tables of the lookups.
    pub(crate) tables: &'a [TableFacts],
    pub(crate) slots: &'a [SlotFacts],
}

impl Requirement {
    pub(crate) fn met(text: impl Into<String>) -> Self {
        Self::new(RequirementState::Met, text, None)
    }

    pub(crate) fn missing(text: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(RequirementState::Missing, text, Some(help.into()))
    }

    pub(crate) fn note(text: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(RequirementState::Note, text, Some(help.into()))
    }

    fn new(state: RequirementState, text: impl Into<String>, help: Option<String>) -> Self {
        let text = text.into();
        Self { state, text, help }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.state == RequirementState::Missing
    }

    /// Writes it with its help below.
    pub(crate) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let sign = match self.state {
            RequirementState::Met => "ok",
            RequirementState::Missing => "missing",
            RequirementState::Note => "note",
        };
        writeln!(out, "  {sign}: {}", printable(&self.text))?;
        match &self.help {
            Some(help) => writeln!(out, "    help: {}", printable(help)),
            None => Ok(()),
        }
    }
}

/// What a server must have, and whether it has it.
pub(crate) fn requirements(provider: &FeedProvider<'_>, it: Observed<'_>) -> Vec<Requirement> {
    let mut found = server_requirements(provider, it);
    found.extend(of_rights(provider, it.facts));
    found.extend(of_publication(it));
    let tables = it.tables.iter();
    found.extend(tables.map(|table| of_table(table, it.facts)));
    found.extend(of_log_limit(it.facts));
    found
}

/// Those of them that `feed setup` does not change.
pub(crate) fn server_requirements(
    provider: &FeedProvider<'_>,
    it: Observed<'_>,
) -> Vec<Requirement> {
    let mut found = of_configuration(provider);
    found.extend(of_server(provider, it));
    found
}

/// What the provider's address must be: queries must be answered by the server whose changes are
/// followed.
fn of_configuration(provider: &FeedProvider<'_>) -> Vec<Requirement> {
    let mut found = Vec::new();
    if provider.config.pooler {
        found.push(Requirement::missing(
            "with pooler = true, queries may be answered by another server than the one that sends \
             its changes",
            "set connection_uri to the server itself, and remove pooler = true",
        ));
    }
    if provider.server.hosts.len() > 1 {
        found.push(Requirement::missing(
            "connection_uri has several hosts, and the changes of one are followed",
            "use one host",
        ));
    }
    let (sender, server) = (&provider.sender().database, &provider.server.database);
    if sender != server {
        found.push(Requirement::missing(
            format!("feed_uri names the database {sender}, and connection_uri {server}"),
            "a stream has the changes of one database: correct feed_uri",
        ));
    }
    found
}

fn of_server(provider: &FeedProvider<'_>, it: Observed<'_>) -> Vec<Requirement> {
    let facts = it.facts;
    let version = &facts.version;
    let mut found = vec![match facts.version_number >= VERSION_MIN {
        true => Requirement::met(format!("PostgreSQL {version}")),
        false => Requirement::missing(
            format!("the server is PostgreSQL {version}, and the feed needs 14 or newer"),
            "upgrade the server",
        ),
    }];
    if facts.is_standby {
        found.push(Requirement::missing(
            "the server is a standby, whose changes cannot be followed yet",
            "set connection_uri to the primary",
        ));
    }
    found.push(match facts.wal_level.as_str() {
        "logical" => Requirement::met("wal_level is logical"),
        level => Requirement::missing(
            format!("wal_level is {level}, and must be logical"),
            "as a superuser: `alter system set wal_level = logical`, then restart the server",
        ),
    });
    if !facts.has_role {
        found.push(Requirement::missing(
            format!("the user {} of the feed does not exist", provider.role()),
            format!(
                "`create role {} login replication`, or correct the URL",
                facts.role_sql
            ),
        ));
    }
    let is_running = it.slots.iter().any(SlotFacts::is_running);
    found.push(of_limit(
        ("replication slots", "max_replication_slots"),
        (facts.slot_count, facts.slot_count_max),
        is_running,
    ));
    found.push(of_limit(
        ("walsenders", "max_wal_senders"),
        (facts.walsender_count, facts.walsender_count_max),
        is_running,
    ));
    found
}

/// The rights of the feed's user.
fn of_rights(provider: &FeedProvider<'_>, facts: &ServerFacts) -> Vec<Requirement> {
    if !facts.has_role {
        return Vec::new();
    }
    let (role, role_sql) = (provider.role(), &facts.role_sql);
    let mut found = vec![match facts.may_replicate {
        true => Requirement::met(format!("the user {role} may replicate")),
        false => Requirement::missing(
            format!("the user {role} may not replicate"),
            format!("as a superuser: `alter role {role_sql} replication`"),
        ),
    }];
    if !facts.may_connect {
        let database = &facts.database_sql;
        found.push(Requirement::missing(
            format!("the user {role} may not connect to the database {database}"),
            format!("`grant connect on database {database} to {role_sql}`"),
        ));
    }
    found
}

/// Whether one more of a limited number can be used. A feed that is running has its own already.
fn of_limit(
    (what, setting): (&str, &str),
    (count, max): (i64, i64),
    is_running: bool,
) -> Requirement {
    let text = format!("{count} of {max} {what} are in use");
    match count < max || is_running {
        true => Requirement::met(text),
        false => {
            let wanted = (max + 10).max(10);
            Requirement::missing(
                text,
                format!(
                    "as a superuser: `alter system set {setting} = {wanted}`, then restart the \
                     server; or end another use"
                ),
            )
        }
    }
}

fn of_publication(it: Observed<'_>) -> Vec<Requirement> {
    let name = &it.facts.publication_sql;
    let Some(publication) = it.publication else {
        let tables = it.tables.iter();
        let tables = tables.filter(|table| table.has_identity() && !table.refuses_updates());
        let tables: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
        let tables = match tables.is_empty() {
            true => String::new(),
            false => format!(" for table {}", tables.join(", ")),
        };
        return vec![Requirement::missing(
            format!("the publication {name} does not exist"),
            format!("`lookaside feed setup`, or `create publication {name}{tables}`"),
        )];
    };
    let mut found = Vec::new();
    if publication.has_all_tables {
        found.push(Requirement::note(
            format!("the publication {name} is for all tables, so the server sends all changes"),
            format!(
                "to send those of the lookups only: `drop publication {name}`, then `lookaside feed \
                 setup`"
            ),
        ));
    }
    found.push(match publication.has_all_kinds {
        true => Requirement::met(format!("the publication {name} exists")),
        false => Requirement::missing(
            format!("the publication {name} leaves out kinds of changes"),
            format!(
                "`alter publication {name} set (publish = 'insert, update, delete, truncate')`"
            ),
        ),
    });
    found
}

fn of_table(table: &TableFacts, facts: &ServerFacts) -> Requirement {
    let (name, publication) = (&table.name, &facts.publication_sql);
    if !table.has_identity() {
        let (problem, help) = table.identity_problem();
        let help = match table.full_problem() {
            None => format!("{help}, or `lookaside feed setup --identity-full`"),
            Some(_) => help,
        };
        return match table.is_published {
            true => Requirement::missing(
                format!(
                    "{name} is published, and {problem}: the server refuses its updates and deletes"
                ),
                help,
            ),
            false => Requirement::note(
                format!(
                    "{name} is not published, because {problem}; its answers have their age only"
                ),
                help,
            ),
        };
    }
    if table.refuses_updates() {
        let (problem, help) = table.unpublished_identity(publication);
        return match table.is_published {
            true => Requirement::missing(
                format!(
                    "{name} is published, and {problem}: the server refuses its updates and deletes"
                ),
                help,
            ),
            false => Requirement::note(
                format!(
                    "{name} is not published, because {problem}; its answers have their age only"
                ),
                help,
            ),
        };
    }
    if table.is_partial {
        return Requirement::missing(
            format!("the publication {publication} leaves out rows or columns of {name}"),
            format!(
                "`alter publication {publication} drop table {name}`, then `alter publication \
                 {publication} add table {name}`"
            ),
        );
    }
    match table.is_published {
        true => Requirement::met(format!(
            "{name} is published, with replica identity {}",
            table.identity().sql()
        )),
        false => Requirement::missing(
            format!("{name} is not in the publication {publication}"),
            format!(
                "`lookaside feed setup`, or `alter publication {publication} add table {name}`"
            ),
        ),
    }
}

fn of_log_limit(facts: &ServerFacts) -> Option<Requirement> {
    (facts.wal_keep_size_max == "-1").then(|| {
        Requirement::note(
            "max_slot_wal_keep_size is -1: the server keeps any amount of its log for a slot. The \
             feed's slots are temporary, and end with its connection",
            "to limit it, as a superuser: `alter system set max_slot_wal_keep_size = '10GB'`, then \
             `select pg_reload_conf()`",
        )
    })
}
