//! The built-in prompt: reads statements and prints tables.

use std::io::{self, BufRead as _, Write as _};
use std::mem;

use lookaside_client::postgres::ErrorResponse;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Answer, Result as ClientResult};
use lookaside_value::{Decimal, RowSet, RowSetBuilder, Value};

use super::client_failure;
use super::line_reader::{Line, LineReader, no_input};
use super::statement::StatementReader;
use super::target::PostgresTarget;
use crate::cli::output::{printable, write_stdout};
use crate::cli::rows::{RowForm, write_rows};
use crate::failure::{CommandResult, Exit, Failure};

/// The number of rows of one result that are shown. A table is drawn when all of it has arrived;
/// for more rows than a person can read there is `COPY … TO STDOUT`, which has no limit.
const ROW_COUNT_MAX: usize = 10_000;

/// The source of statements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Script<'a> {
    /// A person types them, after this greeting; after an error, the prompt goes on.
    Prompt(&'a str),
    /// Read from standard input; the first error ends the run.
    Input,
    /// Given as arguments; the first error ends the run.
    Commands(&'a [String]),
}

/// Whether to go on after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    End,
}

/// Runs statements until there are no more.
pub(super) fn run(
    connection: Connection,
    target: &PostgresTarget,
    script: Script<'_>,
    form: RowForm,
) -> CommandResult {
    let mut prompt = Prompt {
        connection,
        form,
        statements: StatementReader::default(),
    };
    match script {
        Script::Commands(commands) => {
            for text in commands {
                if prompt.take(text)? == Next::End {
                    return Ok(Exit::Done);
                }
                prompt.finish()?;
            }
        }
        Script::Input => {
            for line in io::stdin().lock().lines() {
                if prompt.take(&line.map_err(no_input)?)? == Next::End {
                    return Ok(Exit::Done);
                }
            }
            prompt.finish()?;
        }
        Script::Prompt(about) => prompt.ask(target, about)?,
    }
    Ok(Exit::Done)
}

struct Prompt {
    connection: Connection,
    form: RowForm,
    statements: StatementReader,
}

impl Prompt {
    /// Prompts for lines until the end.
    fn ask(&mut self, target: &PostgresTarget, about: &str) -> Result<(), Failure> {
        let version = self.connection.server_version();
        say(&format!("PostgreSQL {version} at {target}\n{about}"));
        let mut reader = LineReader::new()?;
        // The lines of a statement that has not ended.
        let mut entry = String::new();
        loop {
            let sign = if self.statements.is_begun() {
                "->"
            } else {
                "=>"
            };
            let text = match reader.read(&format!("{}{sign} ", target.database()))? {
                Line::Text(text) => text,
                Line::Interrupted => {
                    self.statements = StatementReader::default();
                    entry.clear();
                    continue;
                }
                Line::End => return Ok(()),
            };
            // An entry of the history, and what is pasted, can have several lines.
            for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
                entry.push_str(line);
                if self.ask_line(line)? == Next::End {
                    return Ok(());
                }
                if self.is_inside() {
                    entry.push('\n');
                } else {
                    reader.remember(&mem::take(&mut entry));
                }
            }
        }
    }

    /// Executes a line of an interactive session. Errors are shown, and only those that end the
    /// connection are returned.
    fn ask_line(&mut self, line: &str) -> Result<Next, Failure> {
        // As in psql, `help` is accepted without a backslash.
        if line.trim().trim_end_matches(';') == "help" && !self.is_inside() {
            say(HELP);
            return Ok(Next::Line);
        }
        let mut next = self.take(line);
        while let Err(failure) = next {
            // Without standard error nothing can be reported.
            let _ = failure.write(&mut io::stderr().lock());
            if self.connection.is_closed() {
                return Err(Failure::new("the connection to the server was lost"));
            }
            next = self.answer_whole();
        }
        next
    }

    /// Whether a statement is incomplete.
    fn is_inside(&self) -> bool {
        self.statements.is_begun() || self.statements.is_inside()
    }

    /// Handles a line: a command if it begins with a backslash between statements, otherwise SQL.
    fn take(&mut self, line: &str) -> Result<Next, Failure> {
        let line = line.trim_end_matches(['\r', '\n']);
        if let Some(command) = line.trim_start().strip_prefix('\\')
            && !self.is_inside()
        {
            return self.command(command.trim_end().trim_end_matches(';').trim_end());
        }
        self.statements.push(line);
        self.statements.push("\n");
        self.answer_whole()
    }

    /// Answers the statements that have ended, up to the first that fails.
    fn answer_whole(&mut self) -> Result<Next, Failure> {
        while let Some(statement) = self.statements.next() {
            self.answer(&statement)?;
        }
        Ok(Next::Line)
    }

    /// Runs the last statement, which has no `;`.
    fn finish(&mut self) -> Result<(), Failure> {
        match self.statements.finish() {
            Some(statement) => self.answer(&statement),
            None => Ok(()),
        }
    }

    fn command(&mut self, command: &str) -> Result<Next, Failure> {
        let (name, argument) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        match (name, argument.trim()) {
            ("q", "") => return Ok(Next::End),
            ("dt", "") => self.answer(TABLES)?,
            ("d", "") => self.answer(TABLES)?,
            ("d", table) => self.describe(table)?,
            ("?", "") => say(HELP),
            _ => {
                let message = format!("unknown command \\{}", printable(command));
                return Err(Failure::new(message).with_help("\\? lists the known commands"));
            }
        }
        Ok(Next::Line)
    }

    fn describe(&mut self, table: &str) -> Result<(), Failure> {
        // The server resolves the name as in a statement, and reports its own error if that fails.
        let table = format!("'{}'::pg_catalog.regclass", table.replace('\'', "''"));
        self.answer(&COLUMNS.replace("$table", &table))?;
        let indexes = self.query(&INDEXES.replace("$table", &table))?;
        if indexes
            .iter()
            .flatten()
            .any(|answer| !answer.rows.is_empty())
        {
            self.show(indexes)?;
        }
        Ok(())
    }

    fn answer(&mut self, sql: &str) -> Result<(), Failure> {
        let answers = self.query(sql);
        let notices = self.connection.take_notices();
        if notices.lost_count() > 0 {
            say(&format!(
                "{} notices came before these",
                notices.lost_count()
            ));
        }
        for notice in notices.iter() {
            say(&notice_line(notice));
        }
        self.show(answers?)
    }

    fn query(&mut self, sql: &str) -> Result<Vec<ClientResult<Answer>>, Failure> {
        let answers = self.connection.script(sql, ROW_COUNT_MAX);
        answers.map_err(|error| client_failure(&error))
    }

    /// Shows the results up to the first error.
    fn show(&self, answers: Vec<ClientResult<Answer>>) -> Result<(), Failure> {
        for answer in answers {
            let answer = answer.map_err(|error| client_failure(&error))?;
            let part = answer.script.as_deref().expect("a script was asked");
            if answer.rows.columns().is_empty() && part.copied.is_empty() {
                // A command tag is not a result: a program that reads rows must not see it.
                say(&part.tag);
                continue;
            }
            write_stdout(|out| {
                out.write_all(&part.copied)?;
                if answer.rows.columns().is_empty() {
                    return Ok(());
                }
                write_rows(&row_set(&answer), self.form, out)
            })?;
            if part.left_out_count > 0 {
                say(&format!(
                    "{} more rows are not shown; COPY (…) TO STDOUT writes all of them",
                    part.left_out_count
                ));
            }
        }
        Ok(())
    }
}

/// A notice of the server, formatted as in psql.
fn notice_line(notice: &ErrorResponse<'_>) -> String {
    let mut text = format!(
        "{}: {}",
        notice.severity().unwrap_or_default(),
        notice.message().unwrap_or_default()
    );
    for (name, more) in [("DETAIL", notice.detail()), ("HINT", notice.hint())] {
        if let Some(more) = more {
            text += &format!("\n{name}: {more}");
        }
    }
    text
}

/// Prints a message that is not a result, to standard error.
pub(super) fn say(text: &str) {
    let lines: Vec<_> = text.lines().map(printable).collect();
    // Without standard error nothing can be reported.
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

fn row_set(answer: &Answer) -> RowSet {
    let description = answer.description.as_deref();
    let types = description.map_or(&[][..], |description| &description.column_types[..]);
    let mut rows = RowSetBuilder::with_columns(answer.rows.shared_columns().clone());
    for row in answer.rows.iter() {
        let cells = row.iter().zip(types);
        rows.push(cells.map(|(cell, type_name)| match cell {
            Value::Text(text) => value(text, type_name),
            // Text in another encoding that the user requested.
            Value::Bytes(bytes) => Value::from(&*String::from_utf8_lossy(bytes)),
            other => other.clone(),
        }));
    }
    rows.build()
}

/// Converts a text of the server to a number or boolean if that is displayed the same.
fn value(text: &str, type_name: &str) -> Value {
    let number = match type_name {
        "bool" if text == "t" => return Value::Bool(true),
        "bool" if text == "f" => return Value::Bool(false),
        "int2" | "int4" | "int8" | "oid" => text.parse().ok().map(Value::Int),
        "float4" | "float8" | "numeric" => text.parse::<Decimal>().ok().map(Value::Decimal),
        _ => None,
    };
    number
        .filter(|number| number.to_text() == text)
        .unwrap_or_else(|| Value::from(text))
}

const HELP: &str = "\
statements end with ;
\\dt          lists tables
\\d TABLE     lists the columns and indexes of a table
\\q           ends the shell
\\? or help   shows this help";

const TABLES: &str = "\
select n.nspname as schema, c.relname as name,
       case c.relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'v' then 'view'
            when 'm' then 'materialized view' when 'f' then 'foreign table' end as kind,
       pg_catalog.pg_get_userbyid(c.relowner) as owner
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f')
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
order by 1, 2";

const COLUMNS: &str = "\
select a.attname as column, pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
       not a.attnotnull as nullable, pg_catalog.pg_get_expr(d.adbin, d.adrelid) as \"default\"
from pg_catalog.pg_attribute a
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $table and a.attnum > 0 and not a.attisdropped
order by a.attnum";

const INDEXES: &str = "\
select c.relname as index, pg_catalog.pg_get_indexdef(i.indexrelid) as definition
from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
where i.indrelid = $table
order by i.indisprimary desc, c.relname";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_text_that_the_server_wrote() {
        for (text, type_name, expected) in [
            ("7", "int4", Value::Int(7)),
            ("-9223372036854775808", "int8", Value::Int(i64::MIN)),
            ("1.50", "numeric", Value::Decimal("1.50".parse().unwrap())),
            ("1e+20", "float8", Value::from("1e+20")),
            ("-0", "float8", Value::from("-0")),
            ("t", "bool", Value::Bool(true)),
            ("7", "text", Value::from("7")),
        ] {
            assert_eq!(value(text, type_name), expected, "{text}");
        }
    }
}
