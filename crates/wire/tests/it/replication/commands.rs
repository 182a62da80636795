//! The rows that answer replication commands.

use lookaside_wire::ProtocolError;
use lookaside_wire::postgres::replication::{
    CreatedSlot, IDENTIFY_SYSTEM, Lsn, SystemId, SystemIdentity, Timeline,
};
use lookaside_wire::postgres::{DataRow, Event, Request};

use crate::server::{messages, ready, row};

/// Calls `read` with a row of these fields.
fn with_row<T>(
    fields: &[Option<&str>],
    read: impl Fn(DataRow<'_>) -> Result<T, ProtocolError>,
) -> Result<T, String> {
    let mut connection = ready();
    connection.queue(Request::Query(IDENTIFY_SYSTEM)).unwrap();
    connection.feed(&messages(&[(b'T', b"\0\0")]));
    connection.feed(&row(fields));
    connection.next_event().unwrap();
    match connection.next_event() {
        Ok(Some(Event::DataRow { row, .. })) => read(row).map_err(|error| error.to_string()),
        other => panic!("{other:?}"),
    }
}

fn identity(fields: &[Option<&str>]) -> Result<(SystemId, Timeline, Lsn, Option<String>), String> {
    with_row(fields, |row| {
        let found = SystemIdentity::decode(row)?;
        let database = found.database.map(str::to_owned);
        Ok((found.system_id, found.timeline, found.flushed, database))
    })
}

fn slot(fields: &[Option<&str>]) -> Result<(String, Lsn, Option<String>), String> {
    with_row(fields, |row| {
        let found = CreatedSlot::decode(row)?;
        let snapshot = found.snapshot.map(str::to_owned);
        Ok((found.name.to_owned(), found.consistent_point, snapshot))
    })
}

#[test]
fn identities_are_read() {
    let id = "7391841295530229767";
    let all = [Some(id), Some("3"), Some("16/B374D848"), Some("shop")];
    let (system_id, timeline, flushed, database) = identity(&all).unwrap();
    assert_eq!(system_id, SystemId(7_391_841_295_530_229_767));
    assert_eq!(timeline, Timeline(3));
    assert_eq!(flushed, Lsn(0x16_b374_d848));
    assert_eq!(database.as_deref(), Some("shop"));
    // A session of physical replication has no database.
    let (.., database) = identity(&[all[0], all[1], all[2], None]).unwrap();
    assert_eq!(database, None);
    // Further columns are those of newer servers.
    assert!(identity(&[all[0], all[1], all[2], None, Some("new")]).is_ok());
    for (fields, expected) in [
        (&[][..], "at byte 2: the row has no valid `systemid`"),
        (&[None], "at byte 2: the row has no valid `systemid`"),
        (&[Some("-7")], "at byte 2: the row has no valid `systemid`"),
        (
            &[Some("7"), Some("x")],
            "at byte 7: the row has no valid `timeline`",
        ),
        (
            &[Some("7"), Some("1"), Some("7")],
            "at byte 12: the row has no valid `xlogpos`",
        ),
        (
            &[Some("7"), Some("1"), Some("1/2")],
            "at byte 19: the row has no valid `dbname`",
        ),
    ] {
        let expected = format!("{IDENTIFY_SYSTEM} {expected}");
        assert_eq!(identity(fields), Err(expected));
    }
}

#[test]
fn slots_are_read() {
    let (name, point) = (Some("feed"), Some("0/1A2B3C"));
    let (found, consistent_point, snapshot) =
        slot(&[name, point, Some("00000003-00000002-1"), Some("pgoutput")]).unwrap();
    assert_eq!(found, "feed");
    assert_eq!(consistent_point, Lsn(0x1a_2b3c));
    assert_eq!(snapshot.as_deref(), Some("00000003-00000002-1"));
    let (.., snapshot) = slot(&[name, point, None, Some("pgoutput")]).unwrap();
    assert_eq!(snapshot, None);
    for (fields, expected) in [
        (
            &[None, point][..],
            "at byte 2: the row has no valid `slot_name`",
        ),
        (
            &[name, None],
            "at byte 10: the row has no valid `consistent_point`",
        ),
        (
            &[name, point],
            "at byte 22: the row has no valid `snapshot_name`",
        ),
    ] {
        let expected = format!("CREATE_REPLICATION_SLOT {expected}");
        assert_eq!(slot(fields), Err(expected));
    }
}
