//! Runs statements over records with a scripted database.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use lookaside_oml::{Evaluator, Model, Options, Program, RunReport};
use lookaside_value::{
    Answers, Batch, BatchQuery, Contract, Lookup, LookupError, LookupErrorKind, NameTable, Names,
    ParamBatch, Record, RowSetBuilder, StatementId, Text, Value, write_json_text,
};

/// A database that returns the same answers for every statement and records its queries.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) columns: Vec<Text>,
    pub(crate) rows: HashMap<Vec<Value>, Result<Vec<Value>, &'static str>>,
    pub(crate) asked: Vec<Vec<Vec<Value>>>,
    /// What each query required.
    pub(crate) contracts: Vec<Contract>,
    /// For each query, whether it waits for an unavailable database.
    pub(crate) waited: Vec<bool>,
    pub(crate) prepared: Vec<String>,
    pub(crate) refuses: bool,
}

impl Script {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self {
            columns: columns.iter().map(|column| (*column).into()).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn row<const N: usize>(
        mut self,
        params: [Value; N],
        row: impl Into<Vec<Value>>,
    ) -> Self {
        self.rows.insert(params.to_vec(), Ok(row.into()));
        self
    }

    pub(crate) fn failure<const N: usize>(
        mut self,
        params: [Value; N],
        message: &'static str,
    ) -> Self {
        self.rows.insert(params.to_vec(), Err(message));
        self
    }
}

impl Lookup for Script {
    fn prepare(&mut self, sql: &str, params: &[Text]) -> Result<StatementId, LookupError> {
        if self.refuses {
            return Err(LookupError::new(
                LookupErrorKind::Refused,
                "no such table: nowhere",
            ));
        }
        assert!(
            params
                .iter()
                .all(|param| sql.contains(&format!(":{param}"))),
            "{sql} {params:?}"
        );
        self.prepared.push(sql.to_owned());
        Ok(StatementId::from_index(self.prepared.len() - 1))
    }

    fn columns(&self, _: StatementId) -> &[Text] {
        &self.columns
    }

    fn answer(&mut self, query: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
        answers.clear();
        self.contracts.push(query.contract);
        self.waited.push(false);
        self.asked
            .push(params.iter().map(<[Value]>::to_vec).collect());
        for set in params.iter() {
            match self.rows.get(set) {
                None => answers.push_absent(),
                Some(Ok(row)) => {
                    let mut rows = RowSetBuilder::new(self.columns.clone());
                    rows.push(row.clone());
                    let rows = answers.add_rows(rows.build());
                    answers.push_row(rows, 0);
                }
                Some(Err(message)) => {
                    let error = LookupError::new(LookupErrorKind::Unavailable, *message);
                    answers.push_failed(error);
                }
            }
        }
    }

    fn answer_when_available(
        &mut self,
        query: BatchQuery,
        params: &ParamBatch,
        answers: &mut Answers,
    ) {
        self.answer(query, params, answers);
        *self.waited.last_mut().expect("it was just added") = true;
    }
}

/// `a:chars=x b:digit=7`: fields of a record, separated by two blanks.
pub(crate) fn fields(text: &str) -> Vec<(&str, Value)> {
    let fields = text
        .split("  ")
        .map(str::trim)
        .filter(|field| !field.is_empty());
    fields.map(field).collect()
}

fn field(text: &str) -> (&str, Value) {
    let (name, typed) = text.split_once(':').expect("name:type=value");
    let (type_word, value) = typed.split_once('=').expect("name:type=value");
    let value = match type_word {
        "chars" => Value::from(value),
        "digit" => Value::Int(value.parse().unwrap()),
        "float" => Value::Float(value.parse().unwrap()),
        "bool" => Value::Bool(value.parse().unwrap()),
        "ip" => Value::Ip(value.parse::<IpAddr>().unwrap()),
        "time" => Value::Time(value.parse().unwrap()),
        "null" => Value::Null,
        "array" => value.split(',').map(Value::from).collect::<Vec<_>>().into(),
        other => panic!("no type {other}"),
    };
    (name, value)
}

/// The fields that an output would show, as JSON.
pub(crate) fn shown(names: &Names, record: &Record) -> String {
    let mut out = String::from("{");
    for field in record
        .iter()
        .filter(|field| !matches!(field.value, Value::Ignore))
    {
        if out.len() > 1 {
            out.push(',');
        }
        write_json_text(names.text(field.name), &mut out);
        out.push(':');
        field.value.write_json(&mut out);
    }
    out + "}"
}

pub(crate) fn options() -> Options {
    Options {
        clock: Arc::new(|| jiff::civil::date(2026, 5, 4).at(3, 2, 1, 500_000_000)),
        ..Options::default()
    }
}

pub(crate) fn bind(statements: &str, script: &mut Script) -> (Evaluator, NameTable) {
    let text = format!("name : t\n---\n{statements}\n");
    let model = Model::parse("t.oml", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let mut names = NameTable::new();
    let program = Program::bind(&model, &mut names, script, &options());
    (
        program
            .unwrap_or_else(|error| panic!("{text}\n{error}"))
            .evaluator(),
        names,
    )
}

pub(crate) fn push(batch: &mut Batch, line: u64, fields: Vec<(&str, Value)>) {
    let mut record = batch.new_record();
    record.line = line;
    for (name, value) in fields {
        let name = batch.names_mut().intern(name);
        record.push(name, value);
    }
    batch.push(record);
}

/// Runs one batch and returns each record as an output would show it.
pub(crate) fn run(
    statements: &str,
    inputs: &[&str],
    script: &mut Script,
) -> (Vec<String>, RunReport) {
    let (mut evaluator, names) = bind(statements, script);
    let mut batch = Batch::new(names.into());
    for (index, input) in inputs.iter().enumerate() {
        push(&mut batch, index as u64 + 1, fields(input));
    }
    let mut report = RunReport::new();
    evaluator.run(&mut batch, script, &mut report);
    let shown = batch
        .records()
        .iter()
        .map(|record| shown(batch.names(), record))
        .collect();
    (shown, report)
}

#[track_caller]
pub(crate) fn check(statements: &str, input: &str, expected: &str) {
    let (shown, _) = run(statements, &[input], &mut Script::default());
    assert_eq!(shown, [expected], "{statements}");
}

#[track_caller]
pub(crate) fn check_values(statements: &str, input: Vec<(&str, Value)>, expected: &str) {
    let (mut evaluator, names) = bind(statements, &mut Script::default());
    let mut batch = Batch::new(names.into());
    push(&mut batch, 1, input);
    evaluator.run(&mut batch, &mut Script::default(), &mut RunReport::new());
    assert_eq!(
        shown(batch.names(), &batch.records()[0]),
        expected,
        "{statements}"
    );
}
