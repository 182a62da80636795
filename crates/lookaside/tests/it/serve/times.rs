//! Times as parameters and in answers, with their offsets.

use lookaside_embedded::Postgres;

use super::Running;
use crate::program::Project;
use crate::providers::has_postgres;

/// A time with an offset finds the rows of its time in UTC, in tables and in a provider alike; and
/// the text of a `timestamptz` finds its row again in any session time zone.
#[test]
fn issue_12_times_keep_their_offset() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .sql(
            "do $$ begin execute format('alter database %I set timezone = ''Asia/Tokyo''', \
             current_database()); end $$;
             create table event (at timestamp, day date, seen timestamptz, word text);
             insert into event values
                ('2026-01-31 07:00:00', '2026-01-30', '2026-01-31 07:00:00Z', '2026-01-31 07:00:00'),
                ('2026-01-31 08:00:00', '2026-01-31', '2026-01-31 08:00:00Z', '2026-01-31 08:00:00')",
        )
        .start()
        .unwrap();
    let lookup = |name: &str, from: &str, kind: &str| {
        format!("[lookups.{name}]\nsql = \"select word from {from} = :t\"\nparams.t = '{kind}'\n")
    };
    let lookups = [
        lookup("table", "events where at", "time"),
        lookup("timestamp", "pg.event where at", "time"),
        lookup("timestamptz", "pg.event where seen", "time"),
        lookup("word", "pg.event where word", "time"),
        lookup("timestamp-text", "pg.event where at", "text"),
        lookup("timestamptz-text", "pg.event where seen", "text"),
        lookup("day", "pg.event where day", "time"),
    ]
    .concat();
    let project = Project::with(&[(
        "knowdb.toml",
        &format!(
            "version = 2\n[[tables]]\nname = 'events'\n[[provider.sqldb]]\nname = 'pg'\n\
             kind = 'postgres'\nconnection_uri = '${{DATABASE_URL}}'\n[server]\nerror_detail = true\n{lookups}\
             [lookups.seen]\nsql = 'select seen, array[seen] as list from pg.event order by seen limit 1'\n"
        ),
    )]);
    project.write(
        "events/data.csv",
        "at,word\n2026-01-31 07:00:00,2026-01-31 07:00:00\n2026-01-31 08:00:00,2026-01-31 08:00:00\n",
    );
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let running = Running::of(command);
    let mut client = running.client();
    let (seven, eight) = ("2026-01-31 07:00:00", "2026-01-31 08:00:00");
    for (lookup, text, expected) in [
        ("table", "2026-01-31T08:00:00%2B01:00", seven),
        ("table", "2026-01-31T08:00:00Z", eight),
        ("table", "2026-01-31T08:00:00", eight),
        ("timestamp", "2026-01-31T08:00:00%2B01:00", seven),
        ("timestamp", "2026-01-31T08:00:00Z", eight),
        ("timestamp", "2026-01-31T08:00:00", eight),
        ("timestamptz", "2026-01-31T08:00:00%2B01:00", seven),
        ("timestamptz", "2026-01-31T08:00:00Z", eight),
        ("word", "2026-01-31T08:00:00%2B01:00", seven),
        ("timestamp-text", "2026-01-31T08:00:00%2B01:00", seven),
        ("timestamp-text", "2026-01-31T08:00:00", eight),
        ("timestamptz-text", "2026-01-31T08:00:00%2B01:00", seven),
        ("day", "2026-01-31T01:00:00%2B02:00", seven),
    ] {
        let answer = client.get(&format!("/v1/lookup/{lookup}?t={text}")).is(200);
        let expected = format!(r#"{{"word":"{expected}"}}"#);
        assert_eq!(answer.text(), expected, "{lookup} {text}");
    }
    // Refused: the error of a parameter without a declared type is in the log.
    client
        .get("/v1/lookup/timestamp-text?t=2026-01-31+08:00:00+PST")
        .is(422);

    let target = "/v1/lookup/seen";
    let shown = "2026-01-31T07:00:00Z";
    let json = client.get(target).is(200);
    assert_eq!(
        json.text(),
        format!(r#"{{"seen":"{shown}","list":["{shown}"]}}"#)
    );
    let csv = client.get_with(target, &[("Accept", "text/csv")]).is(200);
    assert_eq!(
        csv.text(),
        format!("seen,list\r\n{shown},\"[\"\"{shown}\"\"]\"\r\n")
    );
    let accept = [("Accept", "application/vnd.msgpack")];
    let packed = client.get_with(target, &accept).is(200);
    let text = [b"\xb4", shown.as_bytes()].concat();
    assert_eq!(
        packed.body,
        [b"\x82\xa4seen", &text[..], b"\xa4list\x91", &text].concat()
    );
    for lookup in ["timestamptz", "timestamptz-text"] {
        let answer = client
            .get(&format!("/v1/lookup/{lookup}?t={shown}"))
            .is(200);
        assert_eq!(
            answer.text(),
            format!(r#"{{"word":"{seven}"}}"#),
            "{lookup}"
        );
    }
}
