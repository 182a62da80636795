//! Runs statements over a record with a real SQLite, and formats them.
//!
//! The input is written in OML: statements of literals build the record.

use std::net::Ipv4Addr;

use lookaside_oml::{Model, Options, Program, RunReport};
use lookaside_value::{
    Answers, Batch, BatchQuery, Extent, Lookup, LookupError, LookupErrorKind, NameTable,
    ParamBatch, RowSet, RowSetBuilder, StatementId, Text, Value, write_json_text,
};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql};

use crate::format::formatted;

const TABLES: &str = "
    create table zone (start_ip_int integer, end_ip_int integer, zone text, owner text);
    insert into zone values
        (167772160, 184549375, 'corp', 'it'),
        (3232235520, 3232301055, 'branch', 'ops');
    create table users (uid integer, login text, dept text, note text);
    insert into users values
        (1, 'amy', 'sales', null),
        (2, 'bo', 'eng', 'x'),
        (3, 'cy', 'eng', 'y');
";

/// An in-memory database with two tables and the functions on addresses.
pub(crate) struct Sqlite {
    connection: Connection,
    statements: Vec<Prepared>,
}

struct Prepared {
    sql: String,
    params: Vec<String>,
    columns: Vec<Text>,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLES).unwrap();
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        connection
            .create_scalar_function("ip4_int", 1, flags, |context| {
                let text: String = context.get(0)?;
                let ip: Result<Ipv4Addr, _> = text.parse();
                Ok(ip.map_or(0, |ip| i64::from(u32::from(ip))))
            })
            .unwrap();
        connection
            .create_scalar_function("ip4_between", 3, flags, |context| {
                let text: String = context.get(0)?;
                let ip: Ipv4Addr = text.parse().unwrap_or(Ipv4Addr::BROADCAST);
                let range = context.get::<i64>(1)?..=context.get::<i64>(2)?;
                Ok(range.contains(&i64::from(u32::from(ip))))
            })
            .unwrap();
        Self {
            connection,
            statements: Vec::new(),
        }
    }

    fn rows(&self, prepared: &Prepared, set: &[Value]) -> rusqlite::Result<RowSet> {
        let params: Vec<Box<dyn ToSql>> = set.iter().map(bound).collect();
        let params: Vec<(&str, &dyn ToSql)> = prepared
            .params
            .iter()
            .zip(&params)
            .map(|(name, value)| (name.as_str(), &**value))
            .collect();
        let mut statement = self.connection.prepare(&prepared.sql)?;
        let mut rows = statement.query(&params[..])?;
        let mut found = RowSetBuilder::new(prepared.columns.iter().cloned());
        while let Some(row) = rows.next()? {
            let values = (0..prepared.columns.len()).map(|index| {
                Ok(match row.get_ref(index)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(int) => Value::Int(int),
                    ValueRef::Real(float) => Value::Float(float),
                    ValueRef::Text(text) => Value::from(std::str::from_utf8(text).unwrap()),
                    ValueRef::Blob(bytes) => Value::from(bytes.to_vec()),
                })
            });
            found.push(values.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(found.build())
    }
}

fn bound(value: &Value) -> Box<dyn ToSql> {
    match value {
        Value::Null | Value::Ignore => Box::new(None::<i64>),
        Value::Bool(bool) => Box::new(*bool),
        Value::Int(int) => Box::new(*int),
        Value::Float(float) => Box::new(*float),
        value => Box::new(value.to_string()),
    }
}

impl Lookup for Sqlite {
    fn prepare(&mut self, sql: &str, params: &[Text]) -> Result<StatementId, LookupError> {
        let refuse =
            |error: rusqlite::Error| LookupError::new(LookupErrorKind::Refused, error.to_string());
        let statement = self.connection.prepare(sql).map_err(refuse)?;
        self.statements.push(Prepared {
            sql: sql.to_owned(),
            params: params.iter().map(|param| format!(":{param}")).collect(),
            columns: statement.column_names().map(Text::from).collect(),
        });
        Ok(StatementId::from_index(self.statements.len() - 1))
    }

    fn columns(&self, statement: StatementId) -> &[Text] {
        &self.statements[statement.index()].columns
    }

    fn answer(&mut self, query: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
        answers.clear();
        let prepared = &self.statements[query.statement.index()];
        for set in params.iter() {
            match self.rows(prepared, set) {
                Ok(rows) if query.extent == Extent::First => answers.push_first(&rows),
                Ok(rows) => match query.check_row_count(rows.len()) {
                    Ok(()) => answers.push_all(rows),
                    Err(error) => answers.push_failed(error),
                },
                Err(error) => answers.push_failed(LookupError::new(
                    LookupErrorKind::Refused,
                    error.to_string(),
                )),
            }
        }
    }
}

fn bind(
    what: &str,
    statements: &str,
    names: &mut NameTable,
    database: &mut Sqlite,
) -> Result<Program, String> {
    let is_whole = statements.lines().any(|line| line.starts_with("name :"));
    let text = match is_whole {
        true => statements.to_owned(),
        false => format!("name : t\n---\n{statements}"),
    };
    let model = Model::parse(what, &text).map_err(|errors| errors.to_string())?;
    formatted(&text);
    Program::bind(&model, names, database, &Options::default()).map_err(|errors| errors.to_string())
}

/// The result as an output would show it, as JSON, `dropped`, or the error.
///
/// `statements` are a whole model if they begin with its name.
pub(crate) fn run(statements: &str, input: &str) -> Result<String, String> {
    let mut names = NameTable::new();
    let mut database = Sqlite::new();
    let input = match input.trim() {
        "" => None,
        input => Some(bind("input", input, &mut names, &mut database)?),
    };
    let program = bind("model", statements, &mut names, &mut database)?;
    let mut batch = Batch::new(names.into());
    let record = batch.new_record();
    batch.push(record);
    let mut report = RunReport::new();
    for program in input.iter().chain([&program]) {
        program
            .evaluator()
            .run(&mut batch, &mut database, &mut report);
    }
    if let Some(failure) = report.failures().first() {
        return Err(failure.error.to_string());
    }
    let Some(record) = batch.records().first() else {
        return Ok("dropped".to_owned());
    };
    let mut out = String::from("{");
    for field in record.iter() {
        if matches!(field.value, Value::Ignore) {
            continue;
        }
        if out.len() > 1 {
            out.push(',');
        }
        write_json_text(batch.names().text(field.name), &mut out);
        out.push(':');
        field.value.write_json(&mut out);
    }
    Ok(out + "}")
}

#[track_caller]
pub(crate) fn check(statements: &str, input: &str, expected: &str) {
    assert_eq!(
        run(statements, input).as_deref(),
        Ok(expected),
        "{statements}"
    );
}
