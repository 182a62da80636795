//! A database of its own for a test, and a client that is not ours.

use std::env;
use std::sync::OnceLock;

use lookaside_client::types::postgres::{Format, PgType};
use lookaside_embedded::{Binaries, Postgres};
use lookaside_value::Value;
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::raw::{RawParam, RawResult};

const VERSION: &str = "18";

pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
    /// Dropped last: the database goes with it.
    _postgres: Postgres,
}

/// A session, unless there is no server to test with. In CI there must be.
pub(crate) fn session() -> Option<Session> {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let found = FOUND.get_or_init(|| match Binaries::find(VERSION.parse().unwrap(), &()) {
        Ok(_) => true,
        Err(error) => {
            assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
            crate::skip(&format!("no PostgreSQL {VERSION} to test with: {error}"));
            false
        }
    });
    found.then(|| {
        let builder = Postgres::builder().version(VERSION.parse().unwrap());
        let postgres = builder.start().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls)
                .await
                .unwrap();
            tokio::spawn(connection);
            client
        });
        Session {
            runtime,
            client,
            _postgres: postgres,
        }
    })
}

/// The first column of a result: its type and its fields.
pub(crate) struct Column {
    pub(crate) pg_type: PgType,
    pub(crate) fields: Vec<Option<Vec<u8>>>,
}

impl Column {
    pub(crate) fn values(&self, format: Format) -> Vec<Value> {
        let decode = |field: &Option<Vec<u8>>| match field {
            None => Value::Null,
            Some(field) => self.pg_type.decode(format, field).unwrap_or_else(|error| {
                let begin = &field[..field.len().min(64)];
                panic!("{error} in {:?}", String::from_utf8_lossy(begin))
            }),
        };
        self.fields.iter().map(decode).collect()
    }
}

impl Session {
    pub(crate) fn execute(&self, sql: &str) {
        let done = self.runtime.block_on(self.client.batch_execute(sql));
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// The column in the binary format.
    pub(crate) fn binary(&self, sql: &str, params: &[RawParam]) -> Column {
        self.try_binary(sql, params)
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub(crate) fn try_binary(
        &self,
        sql: &str,
        params: &[RawParam],
    ) -> Result<Column, tokio_postgres::Error> {
        self.runtime.block_on(async {
            let statement = self.client.prepare(sql).await?;
            let params: Vec<_> = params.iter().map(|param| param as _).collect();
            let rows = self.client.query(&statement, &params).await?;
            let pg_type = statement
                .columns()
                .first()
                .map_or(0, |column| column.type_().oid());
            let fields = rows.iter().map(|row| row.get::<_, RawResult>(0).0);
            Ok(Column {
                pg_type: PgType::of(pg_type),
                fields: fields.collect(),
            })
        })
    }

    /// The column in the text format, as the server writes it.
    pub(crate) fn text(&self, sql: &str) -> Vec<Option<String>> {
        let messages = self.runtime.block_on(self.client.simple_query(sql));
        let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let fields = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
            _ => None,
        });
        fields.collect()
    }

    /// What the server declares for the parameters of a statement.
    pub(crate) fn declared(&self, sql: &str) -> Vec<u32> {
        let statement = self.runtime.block_on(self.client.prepare(sql));
        let statement = statement.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        statement.params().iter().map(Type::oid).collect()
    }
}
