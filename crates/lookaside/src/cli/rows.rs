//! Rows for people and for programs: as a table, as JSON lines, as CSV.

use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use lookaside_value::{RowSet, Type, Value, write_json_text};

use crate::cli::output::printable;

/// How rows are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowForm {
    /// Columns drawn with lines
    Table,
    /// One JSON object a line
    Json,
    /// Comma-separated values with a header
    Csv,
}

/// Writes all rows of a set.
pub(crate) fn write_rows(rows: &RowSet, form: RowForm, out: &mut dyn Write) -> io::Result<()> {
    match form {
        RowForm::Table => write_table(rows, out),
        RowForm::Json => write_json(rows, out),
        RowForm::Csv => write_csv(rows, out),
    }
}

fn write_table(rows: &RowSet, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(rows.columns().iter().map(|column| column.as_str()));
    for row in rows.iter() {
        table.add_row(row.iter().map(cell_text));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if is_numeric(rows, index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    let plural = if rows.len() == 1 { "" } else { "s" };
    writeln!(out, "{} row{plural}", rows.len())
}

/// The text of a cell: NULL differs from an empty text, and control characters, which would break
/// the layout or the terminal, are escaped.
fn cell_text(value: &Value) -> String {
    if matches!(value, Value::Null) {
        return "NULL".into();
    }
    printable(&value.to_text())
}

fn is_numeric(rows: &RowSet, column: usize) -> bool {
    let mut types = rows
        .iter()
        .map(|row| row[column].type_of())
        .filter(|found| *found != Type::Null)
        .peekable();
    types.peek().is_some()
        && types.all(|found| matches!(found, Type::Int | Type::Float | Type::Decimal))
}

fn write_json(rows: &RowSet, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for row in rows.iter() {
        line.clear();
        for (index, (column, value)) in rows.columns().iter().zip(row).enumerate() {
            line.push(if index == 0 { '{' } else { ',' });
            write_json_text(column, &mut line);
            line.push(':');
            value.write_json(&mut line);
        }
        line.push_str(if row.is_empty() { "{}\n" } else { "}\n" });
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn write_csv(rows: &RowSet, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(rows.columns().iter().map(|column| column.as_str()))?;
    for row in rows.iter() {
        writer.write_record(row.iter().map(|value| value.to_text()).map(String::from))?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use lookaside_value::RowSetBuilder;

    use super::*;

    #[test]
    fn rows_in_all_forms() {
        let mut rows = RowSetBuilder::new(["asn", "org"]);
        rows.push([Value::Int(64500), Value::from("A, \"B\"")]);
        rows.push([Value::Int(7), Value::Null]);
        rows.push([Value::Null, Value::from("\u{1b}[1m")]);
        let rows = rows.build();
        for (form, expected) in [
            (
                RowForm::Table,
                "┌───────────────────┐\n\
                 │   asn   org       │\n\
                 ╞═══════════════════╡\n\
                 │ 64500   A, \"B\"    │\n\
                 │     7   NULL      │\n\
                 │  NULL   \\u{1b}[1m │\n\
                 └───────────────────┘\n\
                 3 rows\n",
            ),
            (
                RowForm::Json,
                "{\"asn\":64500,\"org\":\"A, \\\"B\\\"\"}\n{\"asn\":7,\"org\":null}\n\
                 {\"asn\":null,\"org\":\"\\u001b[1m\"}\n",
            ),
            (
                RowForm::Csv,
                "asn,org\n64500,\"A, \"\"B\"\"\"\n7,\n,\u{1b}[1m\n",
            ),
        ] {
            let mut out = Vec::new();
            write_rows(&rows, form, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{form:?}");
        }
    }
}
