//! Both protocols past our own driver, so that their answers can be compared.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use lookaside_client::types::mysql::{Format, MyType, ParamType, encode};
use lookaside_value::Value;
use lookaside_wire::mysql::{
    ColumnType, Columns, Connection, Credentials, Cursor, Event, Execute, ParameterType, Request,
    RowFormat, Startup, StatementId, Transport,
};

use super::Site;

pub(crate) struct Raw {
    stream: UnixStream,
    connection: Connection,
}

/// What a request brought.
#[derive(Default)]
pub(crate) struct Brought {
    pub(crate) types: Vec<MyType>,
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) error: Option<u16>,
    statement: Option<StatementId>,
}

impl Raw {
    pub(crate) fn new(site: &Site) -> Self {
        let startup = Startup::new("root")
            .database(&site.database)
            .transport(Transport::Protected);
        let connection = Connection::new(&startup, Credentials::new([7; 20]), Default::default());
        let mut raw = Self {
            stream: UnixStream::connect(site.server.socket()).unwrap(),
            connection: connection.unwrap(),
        };
        raw.answer();
        raw
    }

    /// By COM_QUERY.
    pub(crate) fn text(&mut self, sql: &str) -> Brought {
        self.connection.queue(Request::Query(sql)).unwrap();
        self.answer()
    }

    /// By a prepared statement.
    pub(crate) fn binary(&mut self, sql: &str, values: &[Value]) -> Brought {
        self.connection.queue(Request::Prepare(sql)).unwrap();
        let prepared = self.answer();
        let Some(statement) = prepared.statement else {
            return prepared;
        };
        let types: Vec<_> = values
            .iter()
            .map(|value| ParameterType::new(ColumnType(ParamType::of(value).code())))
            .collect();
        let execute = Execute {
            statement,
            cursor: Cursor::None,
        };
        let queued = self.connection.queue_execute(&execute, &types, |writer| {
            for value in values {
                let mut bytes = Vec::new();
                encode(value, &mut bytes).unwrap();
                match ParamType::of(value).code() {
                    6 => writer.null(),
                    1 => writer.number::<1>(bytes.try_into().unwrap()),
                    5 | 8 => writer.number::<8>(bytes.try_into().unwrap()),
                    _ => writer.bytes(&bytes),
                }
            }
        });
        queued.unwrap();
        let brought = self.answer();
        let close = Request::CloseStatement(statement);
        self.connection.queue(close).unwrap();
        brought
    }

    fn answer(&mut self) -> Brought {
        let mut output = Vec::new();
        self.connection.take_output(&mut output);
        self.stream.write_all(&output).unwrap();
        let mut brought = Brought::default();
        loop {
            match self.connection.next_event().unwrap() {
                None => {
                    let mut output = Vec::new();
                    self.connection.take_output(&mut output);
                    self.stream.write_all(&output).unwrap();
                    let space = self.connection.receive_space(4096);
                    let size = self.stream.read(space).unwrap();
                    assert!(size > 0, "the server closed");
                    self.connection.received(size);
                }
                Some(event) => {
                    let is_last = event.is_last();
                    brought.take(event);
                    if is_last {
                        return brought;
                    }
                }
            }
        }
    }
}

impl Brought {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Columns { columns, .. } => self.types = types(columns),
            Event::Prepared { prepared, .. } => self.statement = Some(prepared.statement),
            Event::Row { row, .. } => {
                let format = match row.format() {
                    RowFormat::Text => Format::Text,
                    RowFormat::Binary => Format::Binary,
                };
                let cells = row.cells().zip(&self.types);
                let values = cells.map(|(cell, my_type)| match cell {
                    None => Value::Null,
                    Some(cell) => my_type.decode(format, cell).unwrap_or_else(|error| {
                        panic!("{error} in {:?}", String::from_utf8_lossy(cell))
                    }),
                });
                self.rows.push(values.collect());
            }
            Event::Failed { error, .. } => self.error = Some(error.code()),
            Event::Fatal { error } => panic!("{error}"),
            _ => {}
        }
    }
}

fn types(columns: &Columns) -> Vec<MyType> {
    let types = columns.iter().map(|column| {
        MyType::of(
            column.column_type.0,
            column.flags.0,
            column.collation,
            column.decimals,
        )
        .extended(
            column.type_name.unwrap_or_default(),
            column.type_format.unwrap_or_default(),
        )
    });
    types.collect()
}
