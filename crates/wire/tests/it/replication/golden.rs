//! Messages written by hand from the protocol's documentation: what they decode to, and the errors
//! of invalid ones.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>

use lookaside_wire::ErrorKind;
use lookaside_wire::postgres::Oid;
use lookaside_wire::postgres::replication::{
    LogicalReplicationMessage, Lsn, OldTuple, StandbyStatus, StreamMessage, Timestamp, TupleField,
};

fn decode(payload: &[u8]) -> Result<String, String> {
    let message = LogicalReplicationMessage::decode(payload);
    message
        .map(|message| format!("{message:?}"))
        .map_err(|error| error.to_string())
}

fn decode_stream(data: &[u8]) -> Result<String, String> {
    let message = StreamMessage::decode(data);
    message
        .map(|message| format!("{message:?}"))
        .map_err(|error| error.to_string())
}

/// The messages, by the fields of the documentation.
const MESSAGES: &[(&[&[u8]], &str)] = &[
    (
        &[
            b"B",
            b"\0\0\0\x16\xb3\x74\xd8\x48", // final LSN
            b"\0\0\0\0\0\0\0\x07",         // commit timestamp
            b"\0\0\x02\xf1",               // xid
        ],
        "Begin(Begin { final_lsn: 16/B374D848, commit_time: Timestamp(7), xid: Xid(753) })",
    ),
    (
        &[
            b"C",
            b"\0",                               // flags
            b"\0\0\0\x16\xb3\x74\xd8\x48",       // LSN of the commit
            b"\0\0\0\x16\xb3\x74\xd8\x78",       // end LSN of the transaction
            b"\xff\xff\xff\xff\xff\xff\xff\xff", // commit timestamp
        ],
        "Commit(Commit { lsn: 16/B374D848, end: 16/B374D878, time: Timestamp(-1) })",
    ),
    (
        &[b"O", b"\0\0\0\x01\0\0\0\x02", b"north\0"],
        r#"Origin(Origin { commit_lsn: 1/2, name: "north" })"#,
    ),
    (
        &[
            b"R",
            b"\0\0\x40\x01", // oid
            b"public\0",     // namespace
            b"item\0",       // name
            b"d",            // replica identity
            b"\0\x02",       // number of columns
            b"\x01",         // key
            b"id\0",
            b"\0\0\0\x17",       // type
            b"\xff\xff\xff\xff", // type modifier
            b"\0",
            b"name\0",
            b"\0\0\x04\x13",
            b"\0\0\0\x18",
        ],
        r#"Relation(Relation { oid: Oid(16385), namespace: "public", name: "item", replica_identity: Default, columns: [key "id" 23 -1, "name" 1043 24] })"#,
    ),
    (
        &[b"R", b"\0\0\0\x01", b"\0", b"pg_class\0", b"n", b"\0\0"],
        r#"Relation(Relation { oid: Oid(1), namespace: "pg_catalog", name: "pg_class", replica_identity: Nothing, columns: [] })"#,
    ),
    (
        &[b"R", b"\0\0\0\x02", b"a\0", b"\0", b"f", b"\0\0"],
        r#"Relation(Relation { oid: Oid(2), namespace: "a", name: "", replica_identity: Full, columns: [] })"#,
    ),
    (
        &[b"R", b"\0\0\0\x03", b"a\0", b"b\0", b"i", b"\0\0"],
        r#"Relation(Relation { oid: Oid(3), namespace: "a", name: "b", replica_identity: Index, columns: [] })"#,
    ),
    (
        &[b"Y", b"\0\0\x40\x10", b"public\0", b"mood\0"],
        r#"Type(DataType { oid: Oid(16400), namespace: "public", name: "mood" })"#,
    ),
    (
        &[b"Y", b"\0\0\0\x17", b"\0", b"int4\0"],
        r#"Type(DataType { oid: Oid(23), namespace: "pg_catalog", name: "int4" })"#,
    ),
    (
        &[
            b"I",
            b"\0\0\x40\x01",
            b"N",
            b"\0\x05",
            b"n",
            b"u",
            b"t",
            b"\0\0\0\x03",
            b"a\nb",
            b"b",
            b"\0\0\0\x04",
            b"\0\0\0\x07",
            b"t",
            b"\0\0\0\0",
        ],
        r#"Insert(Insert { relation: Oid(16385), new: [NULL, unchanged, "a\nb", b"\x00\x00\x00\x07", ""] })"#,
    ),
    (
        &[b"I", b"\0\0\x40\x01", b"N", b"\0\0"],
        "Insert(Insert { relation: Oid(16385), new: [] })",
    ),
    (
        &[b"U", b"\0\0\x40\x01", b"N", b"\0\x01", b"n"],
        "Update(Update { relation: Oid(16385), old: None, new: [NULL] })",
    ),
    (
        &[
            b"U",
            b"\0\0\x40\x01",
            b"K",
            b"\0\x02",
            b"t",
            b"\0\0\0\x01",
            b"7",
            b"n",
            b"N",
            b"\0\x02",
            b"t",
            b"\0\0\0\x01",
            b"8",
            b"u",
        ],
        r#"Update(Update { relation: Oid(16385), old: Some(Key(["7", NULL])), new: ["8", unchanged] })"#,
    ),
    (
        &[
            b"U",
            b"\0\0\x40\x01",
            b"O",
            b"\0\x01",
            b"n",
            b"N",
            b"\0\x01",
            b"u",
        ],
        "Update(Update { relation: Oid(16385), old: Some(Full([NULL])), new: [unchanged] })",
    ),
    (
        &[
            b"D",
            b"\0\0\x40\x01",
            b"K",
            b"\0\x01",
            b"b",
            b"\0\0\0\x01",
            b"\x07",
        ],
        r#"Delete(Delete { relation: Oid(16385), old: Key([b"\x07"]) })"#,
    ),
    (
        &[b"D", b"\0\0\x40\x01", b"O", b"\0\x01", b"n"],
        "Delete(Delete { relation: Oid(16385), old: Full([NULL]) })",
    ),
    (
        &[
            b"T",
            b"\0\0\0\x02",
            b"\x03",
            b"\0\0\x40\x01",
            b"\0\0\x40\x02",
        ],
        "Truncate(Truncate { cascade: true, restart_identity: true, relations: [16385, 16386] })",
    ),
    (
        &[b"T", b"\0\0\0\x01", b"\x01", b"\0\0\x40\x01"],
        "Truncate(Truncate { cascade: true, restart_identity: false, relations: [16385] })",
    ),
    (
        &[b"T", b"\0\0\0\0", b"\x02"],
        "Truncate(Truncate { cascade: false, restart_identity: true, relations: [] })",
    ),
    (
        &[
            b"M",
            b"\x01",                 // flags: transactional
            b"\0\0\0\x01\0\0\0\x02", // LSN
            b"nudge\0",              // prefix
            b"\0\0\0\x03",           // length
            b"a\0b",                 // content
        ],
        r#"Message(LogicalDecodingMessage { is_transactional: true, lsn: 1/2, prefix: "nudge", content: "a\x00b" })"#,
    ),
    (
        &[b"M", b"\0", b"\0\0\0\0\0\0\0\0", b"\0", b"\0\0\0\0"],
        r#"Message(LogicalDecodingMessage { is_transactional: false, lsn: 0/0, prefix: "", content: "" })"#,
    ),
];

const STREAM: &[(&[&[u8]], &str)] = &[
    (
        &[
            b"w",
            b"\0\0\0\x16\xb3\x74\xd8\x48", // start
            b"\0\0\0\x16\xb3\x74\xd8\x49", // end
            b"\0\0\0\0\0\0\0\x07",         // time
            b"payload\0",
        ],
        r#"XLogData(XLogData { start: 16/B374D848, end: 16/B374D849, time: Timestamp(7), payload: "payload\x00" })"#,
    ),
    (
        &[
            b"k",
            b"\0\0\0\x01\0\0\0\x02",
            b"\0\0\0\0\0\0\0\x07",
            b"\x01",
        ],
        "PrimaryKeepalive(PrimaryKeepalive { end: 1/2, time: Timestamp(7), reply_requested: true })",
    ),
    (
        &[b"k", b"\0\0\0\x01\0\0\0\x02", b"\0\0\0\0\0\0\0\x07", b"\0"],
        "PrimaryKeepalive(PrimaryKeepalive { end: 1/2, time: Timestamp(7), reply_requested: false })",
    ),
];

#[test]
fn messages_are_those_of_the_documentation() {
    for (fields, expected) in MESSAGES {
        let payload = fields.concat();
        assert_eq!(decode(&payload).as_deref(), Ok(*expected));
    }
    for (fields, expected) in STREAM {
        let data = fields.concat();
        assert_eq!(decode_stream(&data).as_deref(), Ok(*expected));
    }
}

#[test]
fn a_message_that_is_cut_is_an_error_at_its_end_or_before() {
    for (fields, expected) in MESSAGES {
        let payload = fields.concat();
        for size in 0..payload.len() {
            let error = LogicalReplicationMessage::decode(&payload[..size]).unwrap_err();
            assert!(error.offset() <= size, "{expected}: {error}");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{expected}: {error}");
        }
        let longer = [&payload[..], b"\0"].concat();
        let error = LogicalReplicationMessage::decode(&longer).unwrap_err();
        assert_eq!(error.offset(), payload.len(), "{expected}: {error}");
        assert!(error.to_string().ends_with(TRAILING), "{error}");
    }
    for (fields, expected) in STREAM {
        let data = fields.concat();
        let size_min = if data[0] == b'w' { 25 } else { data.len() };
        for size in 0..size_min {
            let error = StreamMessage::decode(&data[..size]).unwrap_err();
            assert!(error.offset() <= size, "{expected}: {error}");
        }
    }
}

const TRAILING: &str = "bytes remain after the last field";
const TRUNCATED: &str = "the message ends in the middle of a field";

#[test]
fn errors_name_the_message_and_the_place() {
    for (payload, expected) in [
        (
            &b""[..],
            format!("message of pgoutput at byte 0: {TRUNCATED}"),
        ),
        (
            b"X",
            "message of pgoutput at byte 0: unknown message type `X`".into(),
        ),
        // Those of protocol versions 2 and 3: streamed and prepared transactions.
        (
            b"S\0\0\0\x01\x01",
            "message of pgoutput at byte 0: unknown message type `S`".into(),
        ),
        (
            b"b",
            "message of pgoutput at byte 0: unknown message type `b`".into(),
        ),
        (b"B\0", format!("Begin at byte 1: {TRUNCATED}")),
        (
            b"C\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "Commit at byte 1: 1 is not a valid set of flags".into(),
        ),
        (
            b"O\0\0\0\0\0\0\0\0north",
            "Origin at byte 9: a text is not terminated".into(),
        ),
        (
            b"R\0\0\0\x01a\0b\0x\0\0",
            "Relation at byte 9: 120 is not a valid replica identity".into(),
        ),
        (
            b"R\0\0\0\x01a\0b\0d\xff\xff",
            "Relation at byte 10: a count of -1".into(),
        ),
        (
            b"R\0\0\0\x01a\0b\0d\0\x01",
            format!("Relation at byte 12: {TRUNCATED}"),
        ),
        (
            b"R\0\0\0\x01a\0b\0d\0\x01\x02",
            "Relation at byte 12: 2 is not a valid set of flags".into(),
        ),
        (
            b"R\0\0\0\x01a\0b\0d\0\0\0",
            format!("Relation at byte 12: {TRAILING}"),
        ),
        (
            b"Y\0\0\0\x01a\0b",
            "Type at byte 7: a text is not terminated".into(),
        ),
        (
            b"I\0\0\0\x01K\0\0",
            "Insert at byte 5: 75 is not a valid kind of tuple here".into(),
        ),
        (
            b"I\0\0\0\x01N\xff\xfe",
            "Insert at byte 6: a count of -2".into(),
        ),
        (
            b"I\0\0\0\x01N\0\x01x",
            "Insert at byte 8: 120 is not a valid kind of value".into(),
        ),
        (
            b"I\0\0\0\x01N\0\x01t\xff\xff\xff\xff",
            "Insert at byte 9: a length of -1".into(),
        ),
        (
            b"I\0\0\0\x01N\0\x01b\0\0\0\x02a",
            format!("Insert at byte 13: {TRUNCATED}"),
        ),
        (
            b"I\0\0\0\x01N\0\x01nn",
            format!("Insert at byte 9: {TRAILING}"),
        ),
        (
            b"U\0\0\0\x01K\0\0K\0\0",
            "Update at byte 8: 75 is not a valid kind of tuple here".into(),
        ),
        (
            b"U\0\0\0\x01K\0\0",
            format!("Update at byte 8: {TRUNCATED}"),
        ),
        (
            b"D\0\0\0\x01N\0\0",
            "Delete at byte 5: 78 is not a valid kind of tuple here".into(),
        ),
        (
            b"T\xff\xff\xff\xff\0",
            "Truncate at byte 1: a count of -1".into(),
        ),
        (
            b"T\x7f\xff\xff\xff\0\0\0\0\x01",
            format!("Truncate at byte 6: {TRUNCATED}"),
        ),
        (
            b"T\0\0\0\0\x04",
            "Truncate at byte 5: 4 is not a valid set of flags".into(),
        ),
        (
            b"T\0\0\0\x01\0\0\0\0\x01\0",
            format!("Truncate at byte 10: {TRAILING}"),
        ),
        (
            b"M\x02\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "Message at byte 1: 2 is not a valid set of flags".into(),
        ),
        (
            b"M\0\0\0\0\0\0\0\0\0p\0\x80\0\0\0",
            "Message at byte 12: a length of -2147483648".into(),
        ),
        (
            b"M\0\0\0\0\0\0\0\0\0p\0\x7f\xff\xff\xffabc",
            format!("Message at byte 16: {TRUNCATED}"),
        ),
    ] {
        assert_eq!(decode(payload), Err(expected));
    }
    for (data, expected) in [
        (
            &b""[..],
            format!("CopyData of replication at byte 0: {TRUNCATED}"),
        ),
        (
            b"x",
            "CopyData of replication at byte 0: unknown message type `x`".into(),
        ),
        (
            b"w\0\0\0\0\0\0\0\0\0",
            format!("XLogData at byte 9: {TRUNCATED}"),
        ),
        (
            b"k\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02",
            "PrimaryKeepalive at byte 17: 2 is not a valid request for a reply".into(),
        ),
        (
            b"k\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0",
            format!("PrimaryKeepalive at byte 18: {TRAILING}"),
        ),
    ] {
        assert_eq!(decode_stream(data), Err(expected));
    }
    let unknown = LogicalReplicationMessage::decode(b"X").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Unexpected);
}

#[test]
fn fields_can_be_iterated() {
    let update = b"U\0\0\0\x07K\0\x02t\0\0\0\x017nN\0\x02t\0\0\0\x018u";
    let Ok(LogicalReplicationMessage::Update(update)) = LogicalReplicationMessage::decode(update)
    else {
        panic!("an Update");
    };
    assert_eq!(update.relation, Oid(7));
    let Some(OldTuple::Key(key)) = update.old else {
        panic!("a key");
    };
    assert!(
        key.into_iter()
            .eq([TupleField::Text(b"7"), TupleField::Null])
    );
    assert_eq!(key.as_bytes(), b"t\0\0\0\x017n");
    assert_eq!(update.old.unwrap().tuple(), key);
    assert_eq!(update.new.len(), 2);
    assert!(!update.new.is_empty());
    let mut fields = update.new.fields();
    assert_eq!(fields.len(), 2);
    assert_eq!(fields.next(), Some(TupleField::Text(b"8")));
    assert_eq!(fields.len(), 1);
    assert_eq!(fields.next(), Some(TupleField::UnchangedToast));
    assert_eq!(fields.next(), None);
    assert_eq!(fields.next(), None);
}

#[test]
fn a_status_is_encoded() {
    let status = StandbyStatus {
        written: Lsn(0x0102_0304_0506_0708),
        flushed: Lsn(0x16_b374_d848),
        applied: Lsn::INVALID,
        time: Timestamp(-2),
        reply_requested: true,
    };
    let expected: &[&[u8]] = &[
        b"r",
        b"\x01\x02\x03\x04\x05\x06\x07\x08",
        b"\0\0\0\x16\xb3\x74\xd8\x48",
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xfe",
        b"\x01",
    ];
    assert_eq!(status.encode()[..], expected.concat());
    let quiet = StandbyStatus {
        reply_requested: false,
        ..status
    };
    assert_eq!(quiet.encode()[33], 0);
}
