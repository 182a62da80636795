//! The schema of one table, as SQLite reports it.

use lookaside_value::Text;
use rusqlite::{Connection, OptionalExtension as _};

use super::bool_words::{BOOL_TEXT, BoolWords};
use super::key::Affinity;
use super::reason::Reason;

/// An ordinary table of the main database.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// The declared columns, then perhaps the row id.
    columns: Vec<Column>,
    /// How many of them `*` expands to.
    pub(super) declared_count: usize,
    /// Whether rows are stored in the order of a row id, which need not be a column.
    pub(super) has_rowid: bool,
    /// For a table without row ids: its primary key, as an `order by` list.
    primary_key_order: String,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: Text,
    /// The declared type.
    pub(super) declared: String,
    pub(super) affinity: Affinity,
    /// The notation of its booleans, if it is declared to store them as text.
    pub(super) words: Option<BoolWords>,
    /// Whether text compares by its bytes; other collations are left to SQLite.
    pub(super) is_binary: bool,
}

/// The names of the row id, unless columns have these names.
pub(super) const ROWID_NAMES: [&str; 3] = ["rowid", "_rowid_", "oid"];

impl Table {
    /// Reads the schema of the table with this name.
    pub(super) fn describe(connection: &Connection, name: &str) -> Result<Self, Reason> {
        if name.len() >= 7 && name.as_bytes()[..7].eq_ignore_ascii_case(b"sqlite_") {
            return Err(Reason::fixed("it reads a table of SQLite's own"));
        }
        let listed = connection
            .query_row(
                "select name, type, wr, strict from pragma_table_list \
                 where schema = 'main' and name = ?1 collate nocase",
                [name],
                |row| {
                    Ok((
                        row.get::<_, String>(0)?,
                        row.get::<_, String>(1)?,
                        row.get::<_, bool>(2)?,
                        row.get::<_, bool>(3)?,
                    ))
                },
            )
            .optional()?;
        let Some((name, kind, is_without_rowid, is_strict)) = listed else {
            return Err(Reason::new(format!("there is no table `{name}`")));
        };
        if kind != "table" {
            return Err(Reason::new(format!("`{name}` is a {kind}, not a table")));
        }
        let mut table = Self {
            columns: Vec::new(),
            declared_count: 0,
            has_rowid: !is_without_rowid,
            primary_key_order: match is_without_rowid {
                true => primary_key_order(connection, &name)?,
                false => String::new(),
            },
            name,
        };
        let mut statement =
            connection.prepare("select name, type from pragma_table_xinfo(?1) order by cid")?;
        let mut listed = statement.query([&table.name])?;
        while let Some(row) = listed.next()? {
            let name: String = row.get(0)?;
            let declared: String = row.get(1)?;
            let (_, collation, ..) =
                connection.column_metadata(Some("main"), table.name.as_str(), name.as_str())?;
            let is_binary =
                collation.is_some_and(|name| name.to_bytes().eq_ignore_ascii_case(b"binary"));
            table.columns.push(Column {
                name: name.into(),
                affinity: Affinity::of_declared_type(&declared, is_strict),
                declared,
                words: None,
                is_binary,
            });
        }
        table.declared_count = table.columns.len();
        if table.has_rowid {
            let free = |name: &&&str| table.find(name).is_none();
            if let Some(name) = ROWID_NAMES.iter().find(free) {
                table.columns.push(Column {
                    name: Text::from_static(name),
                    declared: String::new(),
                    affinity: Affinity::Numeric,
                    words: None,
                    is_binary: true,
                });
            }
        }
        Ok(table)
    }

    /// The positions of the columns that are declared to store booleans as text.
    pub(super) fn bool_texts(&self) -> impl Iterator<Item = usize> + use<> {
        let is_bool_text = |column: &Column| column.declared.eq_ignore_ascii_case(BOOL_TEXT);
        let columns = self.columns.iter().map(is_bool_text).collect::<Vec<bool>>();
        (0..).zip(columns).filter(|it| it.1).map(|it| it.0)
    }

    /// Sets the notation of the booleans of a column.
    pub(super) fn set_words(&mut self, position: usize, words: Option<BoolWords>) {
        self.columns[position].words = words;
    }

    pub(super) fn column(&self, position: usize) -> &Column {
        &self.columns[position]
    }

    /// The position of the column that a name refers to in SQLite.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let rowid = self.declared_count;
        self.find(name).or_else(|| {
            let is_rowid = ROWID_NAMES
                .iter()
                .any(|rowid| rowid.eq_ignore_ascii_case(name));
            (is_rowid && rowid < self.columns.len()).then_some(rowid)
        })
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Whether the column is the row id itself and not a declared column.
    pub(super) fn is_rowid(&self, position: usize) -> bool {
        position >= self.declared_count
    }

    /// The position of the row id, if it has a name.
    pub(super) fn row_id(&self) -> Option<usize> {
        (self.columns.len() > self.declared_count).then_some(self.declared_count)
    }

    /// The number of columns, with the row id.
    pub(super) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// A query for columns of all rows, in the order in which the table stores them.
    ///
    /// `not indexed` makes SQLite scan the table itself; it has no effect on tables without row
    /// ids, but there the query orders all rows by the primary key.
    pub(super) fn scan_sql(&self, positions: &[usize]) -> String {
        let names: Vec<String> = positions
            .iter()
            .map(|position| quoted(&self.columns[*position].name))
            .collect();
        let (names, table) = (names.join(", "), quoted(&self.name));
        match self.has_rowid {
            true => format!("select {names} from main.{table} not indexed"),
            false => format!(
                "select {names} from main.{table} order by {}",
                self.primary_key_order
            ),
        }
    }

    pub(super) fn count_sql(&self) -> String {
        format!("select count(*) from main.{}", quoted(&self.name))
    }
}

fn primary_key_order(connection: &Connection, table: &str) -> Result<String, Reason> {
    let mut statement = connection.prepare(
        "select c.name, c.coll, c.desc \
         from pragma_index_list(?1) as i, pragma_index_xinfo(i.name) as c \
         where i.origin = 'pk' and c.key order by c.seqno",
    )?;
    let terms = statement.query_map([table], |row| {
        let (name, collation): (String, String) = (row.get(0)?, row.get(1)?);
        let direction = if row.get(2)? { "desc" } else { "asc" };
        let (name, collation) = (quoted(&name), quoted(&collation));
        Ok(format!("{name} collate {collation} {direction}"))
    })?;
    let terms: Vec<String> = terms.collect::<Result<_, _>>()?;
    match terms.is_empty() {
        true => Err(Reason::fixed("the primary key of its table cannot be seen")),
        false => Ok(terms.join(", ")),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
