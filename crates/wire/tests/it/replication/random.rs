//! Random messages, encoded by the documentation, decode to themselves. `LOOKASIDE_SEED` repeats a
//! run.

use std::ffi::CString;

use fastrand::Rng;
use lookaside_wire::postgres::Oid;
use lookaside_wire::postgres::replication::{
    LogicalReplicationMessage, Lsn, OldTuple, ReplicaIdentity, StreamMessage, Timestamp, Tuple,
    TupleField, Xid,
};

const ROUND_COUNT: usize = 20_000;

/// A message with owned fields.
#[derive(Debug, PartialEq)]
enum Model {
    Begin(u64, i64, u32),
    Commit(u64, u64, i64),
    Origin(u64, CString),
    Relation(u32, CString, CString, ReplicaIdentity, Vec<Column>),
    Type(u32, CString, CString),
    Insert(u32, Vec<Field>),
    Update(u32, Option<Old>, Vec<Field>),
    Delete(u32, Old),
    Truncate(bool, bool, Vec<u32>),
    Message(bool, u64, CString, Vec<u8>),
}

type Column = (bool, CString, u32, i32);

#[derive(Debug, PartialEq)]
enum Field {
    Null,
    Unchanged,
    Text(Vec<u8>),
    Binary(Vec<u8>),
}

#[derive(Debug, PartialEq)]
enum Old {
    Key(Vec<Field>),
    Full(Vec<Field>),
}

/// A number of any size.
fn number(random: &mut Rng) -> u64 {
    random.u64(..) >> random.u32(..64)
}

fn word(random: &mut Rng) -> u32 {
    random.u32(..) >> random.u32(..32)
}

fn bytes(random: &mut Rng) -> Vec<u8> {
    let size = random.usize(..20);
    (0..size).map(|_| random.u8(..)).collect()
}

fn text(random: &mut Rng) -> CString {
    let mut bytes = bytes(random);
    bytes.retain(|&byte| byte != 0);
    CString::new(bytes).unwrap()
}

fn list<T>(random: &mut Rng, item: impl Fn(&mut Rng) -> T) -> Vec<T> {
    let count = random.usize(..7);
    (0..count).map(|_| item(random)).collect()
}

fn field(random: &mut Rng) -> Field {
    match random.u8(..4) {
        0 => Field::Null,
        1 => Field::Unchanged,
        2 => Field::Text(bytes(random)),
        _ => Field::Binary(bytes(random)),
    }
}

fn old(random: &mut Rng) -> Old {
    let fields = list(random, field);
    if random.bool() {
        Old::Key(fields)
    } else {
        Old::Full(fields)
    }
}

fn model(random: &mut Rng) -> Model {
    let identities = [
        ReplicaIdentity::Default,
        ReplicaIdentity::Nothing,
        ReplicaIdentity::Full,
        ReplicaIdentity::Index,
    ];
    let time = number(random).cast_signed();
    match random.u8(..10) {
        0 => Model::Begin(number(random), time, word(random)),
        1 => Model::Commit(number(random), number(random), time),
        2 => Model::Origin(number(random), text(random)),
        3 => Model::Relation(
            word(random),
            text(random),
            text(random),
            *random.choice(&identities).unwrap(),
            list(random, |random| {
                let modifier = word(random).cast_signed();
                (random.bool(), text(random), word(random), modifier)
            }),
        ),
        4 => Model::Type(word(random), text(random), text(random)),
        5 => Model::Insert(word(random), list(random, field)),
        6 => {
            let old = random.bool().then(|| old(random));
            Model::Update(word(random), old, list(random, field))
        }
        7 => Model::Delete(word(random), old(random)),
        8 => Model::Truncate(random.bool(), random.bool(), list(random, word)),
        _ => Model::Message(random.bool(), number(random), text(random), bytes(random)),
    }
}

/// Writes messages by the documentation.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn put(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    fn u16(&mut self, number: usize) -> &mut Self {
        self.put(u16::try_from(number).unwrap().to_be_bytes())
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.put(number.to_be_bytes())
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.put(number.to_be_bytes())
    }

    fn i64(&mut self, number: i64) -> &mut Self {
        self.put(number.to_be_bytes())
    }

    fn text(&mut self, text: &CString) -> &mut Self {
        self.put(text.as_bytes_with_nul())
    }

    fn sized(&mut self, bytes: &[u8]) -> &mut Self {
        let size = u32::try_from(bytes.len()).unwrap();
        self.u32(size).put(bytes)
    }

    fn tuple(&mut self, kind: u8, fields: &[Field]) -> &mut Self {
        self.put([kind]).u16(fields.len());
        for field in fields {
            match field {
                Field::Null => self.put(b"n"),
                Field::Unchanged => self.put(b"u"),
                Field::Text(value) => self.put(b"t").sized(value),
                Field::Binary(value) => self.put(b"b").sized(value),
            };
        }
        self
    }

    fn old(&mut self, old: &Old) -> &mut Self {
        match old {
            Old::Key(fields) => self.tuple(b'K', fields),
            Old::Full(fields) => self.tuple(b'O', fields),
        }
    }

    fn message(&mut self, model: &Model) -> &mut Self {
        match model {
            Model::Begin(lsn, time, xid) => self.put(b"B").u64(*lsn).i64(*time).u32(*xid),
            Model::Commit(lsn, end, time) => self.put(b"C\0").u64(*lsn).u64(*end).i64(*time),
            Model::Origin(lsn, name) => self.put(b"O").u64(*lsn).text(name),
            Model::Relation(oid, namespace, name, identity, columns) => {
                let identity = match identity {
                    ReplicaIdentity::Default => b'd',
                    ReplicaIdentity::Nothing => b'n',
                    ReplicaIdentity::Full => b'f',
                    ReplicaIdentity::Index => b'i',
                };
                self.put(b"R").u32(*oid).text(namespace).text(name);
                self.put([identity]).u16(columns.len());
                for (is_key, name, type_oid, modifier) in columns {
                    self.put([u8::from(*is_key)]).text(name).u32(*type_oid);
                    self.put(modifier.to_be_bytes());
                }
                self
            }
            Model::Type(oid, namespace, name) => {
                self.put(b"Y").u32(*oid).text(namespace).text(name)
            }
            Model::Insert(oid, new) => self.put(b"I").u32(*oid).tuple(b'N', new),
            Model::Update(oid, old, new) => {
                self.put(b"U").u32(*oid);
                if let Some(old) = old {
                    self.old(old);
                }
                self.tuple(b'N', new)
            }
            Model::Delete(oid, old) => self.put(b"D").u32(*oid).old(old),
            Model::Truncate(cascade, restart, oids) => {
                let flags = u8::from(*cascade) | u8::from(*restart) << 1;
                self.put(b"T").u32(u32::try_from(oids.len()).unwrap());
                self.put([flags]);
                for oid in oids {
                    self.u32(*oid);
                }
                self
            }
            Model::Message(is_transactional, lsn, prefix, content) => {
                self.put(b"M").put([u8::from(*is_transactional)]).u64(*lsn);
                self.text(prefix).sized(content)
            }
        }
    }
}

fn owned_fields(tuple: Tuple<'_>) -> Vec<Field> {
    let fields: Vec<Field> = tuple
        .fields()
        .map(|field| match field {
            TupleField::Null => Field::Null,
            TupleField::UnchangedToast => Field::Unchanged,
            TupleField::Text(value) => Field::Text(value.to_vec()),
            TupleField::Binary(value) => Field::Binary(value.to_vec()),
        })
        .collect();
    assert_eq!(fields.len(), tuple.len());
    fields
}

fn owned_old(old: OldTuple<'_>) -> Old {
    match old {
        OldTuple::Key(tuple) => Old::Key(owned_fields(tuple)),
        OldTuple::Full(tuple) => Old::Full(owned_fields(tuple)),
    }
}

fn owned(message: LogicalReplicationMessage<'_>) -> Model {
    use LogicalReplicationMessage as M;
    match message {
        M::Begin(begin) => {
            let Xid(xid) = begin.xid;
            Model::Begin(begin.final_lsn.0, begin.commit_time.0, xid)
        }
        M::Commit(commit) => Model::Commit(commit.lsn.0, commit.end.0, commit.time.0),
        M::Origin(origin) => Model::Origin(origin.commit_lsn.0, origin.name.into()),
        M::Relation(relation) => {
            let columns = relation.columns().map(|column| {
                let type_oid = column.type_oid.0;
                let name = column.name.into();
                (column.is_key, name, type_oid, column.type_modifier)
            });
            Model::Relation(
                relation.oid.0,
                relation.namespace.into(),
                relation.name.into(),
                relation.replica_identity,
                columns.collect(),
            )
        }
        M::Type(named) => Model::Type(named.oid.0, named.namespace.into(), named.name.into()),
        M::Insert(insert) => Model::Insert(insert.relation.0, owned_fields(insert.new)),
        M::Update(update) => Model::Update(
            update.relation.0,
            update.old.map(owned_old),
            owned_fields(update.new),
        ),
        M::Delete(delete) => Model::Delete(delete.relation.0, owned_old(delete.old)),
        M::Truncate(truncate) => Model::Truncate(
            truncate.cascade,
            truncate.restart_identity,
            truncate.relations().map(|Oid(oid)| oid).collect(),
        ),
        M::Message(message) => Model::Message(
            message.is_transactional,
            message.lsn.0,
            message.prefix.into(),
            message.content.to_vec(),
        ),
        _ => panic!("a message without a model: {message:?}"),
    }
}

/// An empty namespace is that of the built-in types.
fn with_namespace(mut model: Model) -> Model {
    if let Model::Relation(_, namespace, ..) | Model::Type(_, namespace, _) = &mut model
        && namespace.is_empty()
    {
        *namespace = c"pg_catalog".into();
    }
    model
}

#[test]
fn messages_decode_to_what_was_encoded() {
    let seed = match std::env::var("LOOKASIDE_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => fastrand::u64(..),
    };
    eprintln!("LOOKASIDE_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    for round in 0..ROUND_COUNT {
        let model = model(&mut random);
        let (start, end) = (number(&mut random), number(&mut random));
        let time = number(&mut random).cast_signed();
        let mut data = Writer::default();
        data.put(b"w").u64(start).u64(end).i64(time).message(&model);
        let decoded = StreamMessage::decode(&data.0);
        let Ok(StreamMessage::XLogData(piece)) = decoded else {
            panic!("round {round}: {decoded:?}");
        };
        assert_eq!(piece.start, Lsn(start), "round {round}");
        assert_eq!(piece.end, Lsn(end), "round {round}");
        assert_eq!(piece.time, Timestamp(time), "round {round}");
        let decoded = LogicalReplicationMessage::decode(piece.payload)
            .unwrap_or_else(|error| panic!("round {round}, {model:?}: {error}"));
        assert_eq!(owned(decoded), with_namespace(model), "round {round}");
    }
}

/// Numbers are ordered as their texts are.
#[test]
fn positions_survive_as_text() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    for _ in 0..ROUND_COUNT {
        let lsn = Lsn(number(&mut random));
        assert_eq!(lsn.to_string().parse(), Ok(lsn));
    }
}
