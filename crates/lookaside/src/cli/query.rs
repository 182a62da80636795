//! `lookaside query`: runs one SQL statement on the project's tables.

use std::io::{self, Read as _};
use std::path::PathBuf;

use clap::Args;
use lookaside_knowledge::Params;
use lookaside_value::Value;

use crate::cli::output::{check_stdin, finish_stdout};
use crate::cli::rows::{RowForm, write_rows};
use crate::columns::{DOUBLED_HELP, doubled};
use crate::failure::{CommandResult, Failure};
use crate::project::Project;

/// The size limit of a statement on standard input; more is probably the wrong input.
const SQL_SIZE_MAX: u64 = 1 << 20;

/// Answer a SQL query from the project's tables
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside query examples/access-log \"select count(*) from users\"
  lookaside query examples/access-log --param ip=220.247.1.40 --format json \\
      \"select * from asn where first_ip <= ip4_int(:ip) and last_ip >= ip4_int(:ip)\"
  echo \"select :n + 1 as next\" | lookaside query examples/access-log - --param n:=41")]
pub(crate) struct QueryArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    dir: PathBuf,

    /// The statement, with parameters written :name; `-` reads it from standard input
    sql: String,

    /// The value of a parameter: NAME=TEXT, or NAME:=JSON for numbers, true, false and null
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parameter)]
    param: Vec<(String, Value)>,

    /// The format of the rows
    #[arg(long, short, value_enum, value_name = "FORM", default_value = "table")]
    format: RowForm,
}

pub(crate) fn run(arguments: &QueryArguments) -> CommandResult {
    let project = Project::open(&arguments.dir)?;
    let sql = statement(&arguments.sql)?;
    let knowledge = project.load()?;
    let params: Vec<_> = arguments
        .param
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    let rows = knowledge
        .query_all(sql.as_str(), Params::Named(&params))
        .map_err(|error| Failure::from_error(&error))?;
    let is_json = arguments.format == RowForm::Json;
    if let Some(column) = doubled(rows.columns()).filter(|_| is_json) {
        let problem = format!("the statement returns two columns named {column:?}");
        return Err(Failure::new(problem).with_help(DOUBLED_HELP));
    }
    finish_stdout(|out| write_rows(&rows, arguments.format, out))
}

/// The statement of an argument; `-` reads standard input.
pub(crate) fn statement(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    check_stdin()?;
    let mut sql = String::new();
    io::stdin()
        .take(SQL_SIZE_MAX + 1)
        .read_to_string(&mut sql)
        .map_err(|error| Failure::new("cannot read SQL from standard input").because(&error))?;
    if sql.len() as u64 > SQL_SIZE_MAX {
        let message = format!("standard input contains more than {SQL_SIZE_MAX} bytes of SQL");
        return Err(Failure::new(message));
    }
    Ok(sql)
}

/// `name=text` or `name:=json`.
fn parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write NAME=TEXT or NAME:=JSON")?;
    let (name, value) = match name.strip_suffix(':') {
        None => (name, Value::from(value)),
        Some(name) => (name, json(value)?),
    };
    if name.is_empty() {
        return Err("the name is missing: write NAME=TEXT or NAME:=JSON".to_owned());
    }
    Ok((name.to_owned(), value))
}

fn json(text: &str) -> Result<Value, String> {
    use serde_json::Value as Json;

    match serde_json::from_str(text) {
        Ok(Json::Null) => Ok(Value::Null),
        Ok(Json::Bool(bool)) => Ok(Value::Bool(bool)),
        Ok(Json::String(text)) => Ok(Value::from(text)),
        Ok(Json::Number(number)) => match (integer(text.trim()), number.as_f64()) {
            (Some(integer), _) => Ok(integer),
            (None, Some(float)) => Ok(Value::Float(float)),
            (None, None) => Err(format!("{number} is out of range")),
        },
        Ok(Json::Array(_) | Json::Object(_)) => {
            Err("lists and objects cannot be passed to SQL".to_owned())
        }
        Err(error) => Err(format!("this is not JSON: {error}")),
    }
}

/// A JSON number without a point and an exponent, exactly: beyond 64 bits it is a decimal.
fn integer(number: &str) -> Option<Value> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match number.parse() {
        Ok(int) => Some(Value::Int(int)),
        Err(_) => number.parse().ok().map(Value::Decimal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_text_or_json() {
        for (text, expected) in [
            ("ip=8.8.8.8", Ok(("ip", Value::from("8.8.8.8")))),
            ("a=b=c", Ok(("a", Value::from("b=c")))),
            ("a=", Ok(("a", Value::from("")))),
            ("n:=41", Ok(("n", Value::Int(41)))),
            ("n:=-0", Ok(("n", Value::Int(0)))),
            ("n:=1.5", Ok(("n", Value::Float(1.5)))),
            ("n:=1e20", Ok(("n", Value::Float(1e20)))),
            (
                "n:= 18446744073709551616",
                Ok(("n", Value::Decimal("18446744073709551616".parse().unwrap()))),
            ),
            ("n:=null", Ok(("n", Value::Null))),
            ("n:=\"1\"", Ok(("n", Value::from("1")))),
            ("n", Err("write NAME=TEXT or NAME:=JSON")),
            (
                "=1",
                Err("the name is missing: write NAME=TEXT or NAME:=JSON"),
            ),
            ("n:=[]", Err("lists and objects cannot be passed to SQL")),
        ] {
            let found = parameter(text);
            let expected = expected.map(|(name, value)| (name.to_owned(), value));
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        }
    }
}
