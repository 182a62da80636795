//! What the SQL of a table does with a record, if it only stores values in columns of plain types.
//!
//! Such a table is loaded without SQLite. All other SQL runs in SQLite, which has the last word also about
//! the table: it has executed `create.sql`, and tells the columns.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Insert, ObjectName, SetExpr, Statement,
    TableObject, Value, ValueWithSpan,
};
use sqlparser::dialect::SQLiteDialect;
use sqlparser::parser::Parser;

use crate::bind::SqlValue;
use crate::functions::{self, Function, SqlOut};
use crate::plan::{KEY_COLUMN_COUNT_MAX, Storage};
use crate::sql_name::quote_name;

/// How the values of a row are made from the fields of a record.
#[derive(Debug)]
pub(super) struct PlainInsert {
    columns: Vec<Column>,
    /// The column that is the row id.
    pub(super) row_id: Option<usize>,
    /// Columns of which no two rows have the same values.
    pub(super) unique: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Column {
    storage: Storage,
    is_not_null: bool,
    source: Source,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// `?N`, counted from 0.
    Field(usize),
    /// `nullif(?N, '')`.
    FieldOrNull(usize),
    /// A function of `?N`, whose result is an integer.
    Call(Function, usize),
    /// The column is not filled.
    Null,
}

/// Why SQLite has to load a table.
pub(super) type Reason = &'static str;

impl PlainInsert {
    /// Reads the `insert.sql` of a table that was created and cleaned.
    pub(super) fn of(connection: &Connection, table: &str, insert: &str) -> Result<Self, Reason> {
        let mut columns = columns(connection, table)?;
        for (name, source) in sources(table, insert, &columns)? {
            let found = columns
                .iter_mut()
                .find(|it| it.0.eq_ignore_ascii_case(&name));
            let (_, column) =
                found.ok_or("insert.sql fills a column that the table does not have")?;
            if column.source != Source::Null {
                return Err("insert.sql fills a column twice");
            }
            column.source = source;
        }
        let row_id = row_id(connection, table)?;
        Ok(Self {
            unique: unique(connection, table)?,
            row_id: row_id.and_then(|name| columns.iter().position(|it| it.0 == name)),
            columns: columns.into_iter().map(|(_, column)| column).collect(),
        })
    }

    /// Whether the table refuses rows with the same key.
    pub(super) fn has_keys(&self) -> bool {
        self.row_id.is_some() || !self.unique.is_empty()
    }

    /// The number of columns.
    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }

    /// The value of a column as SQLite would store it; `None` if SQLite must tell.
    #[inline]
    pub(super) fn value<'r>(
        &self,
        column: usize,
        field: impl Fn(usize) -> &'r [u8],
    ) -> Option<ValueRef<'r>> {
        let column = &self.columns[column];
        let text = match column.source {
            Source::Field(index) => Some(field(index)),
            Source::FieldOrNull(index) => Some(field(index)).filter(|text| !text.is_empty()),
            Source::Call(function, index) => {
                let text = std::str::from_utf8(field(index)).ok()?;
                return match functions::call(function, &[SqlValue::Text(text)]).ok()? {
                    SqlOut::Int(int) if column.storage == Storage::Numeric => {
                        Some(ValueRef::Integer(int))
                    }
                    // The result of all functions that are recognized is an integer.
                    _ => None,
                };
            }
            Source::Null => None,
        };
        match text {
            Some(text) => column.storage.stored(text),
            None if column.is_not_null => None,
            None => Some(ValueRef::Null),
        }
    }
}

/// The columns of the table, by their names.
fn columns(connection: &Connection, table: &str) -> Result<Vec<(String, Column)>, Reason> {
    let listed: (String, bool, bool) = connection
        .query_row(
            "select type, wr, strict from pragma_table_list \
             where schema = 'main' and name = ?1 collate nocase",
            [table],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .map_err(|_| "the table cannot be described")?;
    match &listed {
        (kind, ..) if kind != "table" => return Err("it is a view or a virtual table"),
        (_, true, _) => return Err("it is a table without row ids"),
        (.., true) => return Err("it is a strict table"),
        _ => {}
    }
    let text: String = query(
        connection,
        "select group_concat(sql, ' ') from sqlite_schema \
         where tbl_name = ?1 collate nocase and type = 'table'",
        table,
    )?;
    // A trigger of any table may change this one.
    let trigger = "select exists (select 1 from sqlite_schema where type = 'trigger' and ?1 <> '')";
    if query(connection, trigger, table)? {
        return Err("the SQL of this table or of one before it creates a trigger");
    }
    let temporary = "select exists (select 1 from sqlite_temp_schema where ?1 <> '')";
    if query(connection, temporary, table)? {
        return Err("a create.sql makes temporary objects");
    }
    let words = text.to_ascii_uppercase();
    for (word, why) in [
        ("CHECK", "create.sql has a check"),
        ("REFERENCES", "create.sql has a foreign key"),
        ("CONFLICT", "create.sql has a conflict clause"),
        ("COLLATE", "create.sql has a collation"),
    ] {
        if words.contains(word) {
            return Err(why);
        }
    }
    let quoted = quote_name(table);
    let is_filled = connection.query_row(
        &format!("select exists (select 1 from main.{quoted})"),
        [],
        |row| row.get(0),
    );
    if is_filled.unwrap_or(true) {
        return Err("create.sql or clean.sql leaves rows");
    }
    let described = || -> rusqlite::Result<Option<Vec<(String, Column)>>> {
        let mut statement = connection.prepare(
            "select name, type, \"notnull\", dflt_value is not null, hidden \
             from pragma_table_xinfo(?1) order by cid",
        )?;
        let mut rows = statement.query([table])?;
        let mut columns = Vec::new();
        while let Some(row) = rows.next()? {
            let (has_default, hidden): (bool, i64) = (row.get(3)?, row.get(4)?);
            if has_default || hidden != 0 {
                return Ok(None);
            }
            let declared: String = row.get(1)?;
            let column = Column {
                storage: Storage::of_declared_type(&declared),
                is_not_null: row.get(2)?,
                source: Source::Null,
            };
            columns.push((row.get(0)?, column));
        }
        Ok(Some(columns))
    };
    let columns = described().map_err(|_| "the columns cannot be described")?;
    columns.ok_or("a column is generated or has a default")
}

/// The columns of each unique index, with that of a primary key other than the row id.
fn unique(connection: &Connection, table: &str) -> Result<Vec<Vec<usize>>, Reason> {
    const OTHER: Reason = "the table has a unique index that is partial or of an expression";
    let read = || -> rusqlite::Result<Option<Vec<Vec<usize>>>> {
        let mut statement = connection
            .prepare("select name, partial from pragma_index_list(?1) where \"unique\"")?;
        let mut indexes = statement.query([table])?;
        let mut unique = Vec::new();
        while let Some(index) = indexes.next()? {
            let (name, is_partial): (String, bool) = (index.get(0)?, index.get(1)?);
            let mut statement = connection.prepare_cached(
                "select cid, coll from pragma_index_xinfo(?1) where key order by seqno",
            )?;
            let parts = statement.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let parts: Vec<(i64, String)> = parts.collect::<rusqlite::Result<_>>()?;
            let is_plain =
                |(cid, coll): &(i64, String)| *cid >= 0 && coll.eq_ignore_ascii_case("binary");
            if is_partial || !parts.iter().all(is_plain) || parts.len() > KEY_COLUMN_COUNT_MAX {
                return Ok(None);
            }
            unique.push(parts.iter().map(|(cid, _)| *cid as usize).collect());
        }
        Ok(Some(unique))
    };
    let unique = read().map_err(|_| "the indexes cannot be described")?;
    unique.ok_or(OTHER)
}

/// The column that is another name of the row id.
fn row_id(connection: &Connection, table: &str) -> Result<Option<String>, Reason> {
    let read = || -> rusqlite::Result<Option<String>> {
        // Any other primary key has an index.
        let has_index: bool = connection.query_row(
            "select exists (select 1 from pragma_index_list(?1) where origin = 'pk')",
            [table],
            |row| row.get(0),
        )?;
        if has_index {
            return Ok(None);
        }
        let sql = "select name from pragma_table_xinfo(?1) where pk > 0";
        let name = connection.query_row(sql, [table], |row| row.get(0));
        name.optional()
    };
    read().map_err(|_| "the primary key cannot be described")
}

fn query<T: rusqlite::types::FromSql>(
    connection: &Connection,
    sql: &str,
    table: &str,
) -> Result<T, Reason> {
    let found = connection.query_row(sql, [table], |row| row.get(0));
    found.map_err(|_| "the table cannot be described")
}

/// The columns that `insert.sql` fills.
fn sources(
    table: &str,
    sql: &str,
    columns: &[(String, Column)],
) -> Result<Vec<(String, Source)>, Reason> {
    const OTHER: Reason = "insert.sql is not one insert of a row of parameters";
    let parsed = Parser::parse_sql(&SQLiteDialect {}, sql).map_err(|_| OTHER)?;
    let [Statement::Insert(insert)] = parsed.as_slice() else {
        return Err(OTHER);
    };
    let Insert {
        or: None,
        ignore: false,
        into: true,
        table: TableObject::TableName(name),
        table_alias: None,
        columns: named,
        overwrite: false,
        source: Some(rows),
        partitioned: None,
        on: None,
        returning: None,
        replace_into: false,
        ..
    } = insert
    else {
        return Err(OTHER);
    };
    let is_table = ident(name).is_some_and(|name| name.eq_ignore_ascii_case(table));
    let SetExpr::Values(values) = &*rows.body else {
        return Err(OTHER);
    };
    let ([row], true, None, None) = (&*values.rows, is_table, &rows.with, &rows.order_by) else {
        return Err(OTHER);
    };
    let names: Vec<String> = match named.as_slice() {
        [] => columns.iter().map(|(name, _)| name.clone()).collect(),
        named => named
            .iter()
            .map(ident)
            .collect::<Option<Vec<String>>>()
            .ok_or(OTHER)?,
    };
    let sources = row.iter().map(source).collect::<Option<Vec<Source>>>();
    let sources = sources.ok_or("insert.sql computes a value")?;
    if names.len() != sources.len() {
        return Err(OTHER);
    }
    Ok(names.into_iter().zip(sources).collect())
}

/// A name without qualifiers.
fn ident(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(|it| it.value.clone()),
        _ => None,
    }
}

fn source(expression: &Expr) -> Option<Source> {
    match expression {
        Expr::Value(value) => parameter(value).map(Source::Field),
        Expr::Function(call) => {
            let FunctionArguments::List(list) = &call.args else {
                return None;
            };
            let is_plain = call.over.is_none()
                && call.filter.is_none()
                && list.duplicate_treatment.is_none()
                && list.clauses.is_empty();
            let name = call.name.to_string();
            match list.args.as_slice() {
                [
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(field))),
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(empty))),
                ] if is_plain && name.eq_ignore_ascii_case("nullif") => match &empty.value {
                    Value::SingleQuotedString(text) if text.is_empty() => {
                        parameter(field).map(Source::FieldOrNull)
                    }
                    _ => None,
                },
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(field)))] if is_plain => {
                    let function = Function::from_name(&name)?;
                    let is_int = matches!(
                        function,
                        Function::Ip4Int | Function::Cidr4Min | Function::Cidr4Max
                    );
                    let call = |field| Source::Call(function, field);
                    parameter(field).map(call).filter(|_| is_int)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The position of `?N`, from 0.
fn parameter(value: &ValueWithSpan) -> Option<usize> {
    let Value::Placeholder(name) = &value.value else {
        return None;
    };
    name.strip_prefix('?')?
        .parse::<usize>()
        .ok()?
        .checked_sub(1)
}
