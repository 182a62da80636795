//! The entries of `[[first_of]]`: names for several tables, of which the first that has a row
//! answers.

use lookaside_value::Value;

use super::TableConfig;
use super::reader::Section;
use crate::Result;

/// One `[[first_of]]` entry.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FirstOfConfig {
    /// The name that statements read.
    pub name: String,
    /// The tables in the order in which they are looked up; at least one.
    pub tables: Vec<String>,
    /// The columns of the row that answers if no table has one, if there is such a row; the others
    /// are NULL.
    pub on_miss: Option<Vec<(String, Value)>>,
    /// The line of the entry in [`Config::file`](super::Config::file).
    pub line: usize,
}

pub(super) fn read_first_of(
    root: &Section<'_>,
    tables: &[TableConfig],
) -> Result<Vec<FirstOfConfig>> {
    let mut entries: Vec<FirstOfConfig> = Vec::new();
    for section in root.sections("first_of")? {
        let entry = read_entry(&section, tables)?;
        let same = |name: &str| name.eq_ignore_ascii_case(&entry.name);
        let table = tables.iter().find(|it| it.enabled && same(&it.name));
        let line = table.map(|it| it.line);
        let line = line.or_else(|| entries.iter().find(|it| same(&it.name)).map(|it| it.line));
        if let Some(line) = line {
            let problem = format!(
                "{:?} is already the name of the entry in line {line}; choose another name",
                entry.name
            );
            return Err(section.bad("name", &problem));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn read_entry(section: &Section<'_>, tables: &[TableConfig]) -> Result<FirstOfConfig> {
    section.only(&["name", "tables", "on_miss"])?;
    let name = section
        .str("name")?
        .ok_or_else(|| section.bad("name", "is missing; write name = \"…\""))?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') || !name.chars().all(is_word) {
        let problem = format!(
            "{name:?} cannot be read in SQL without quotes; choose a name of letters, digits and `_`"
        );
        return Err(section.bad("name", &problem));
    }
    let names = section.strs("tables")?;
    if names.is_empty() {
        let problem = "is missing; write tables = [\"…\", \"…\"], the first one to look up first";
        return Err(section.bad("tables", problem));
    }
    for (index, name) in names.iter().enumerate() {
        let same = |other: &str| other.eq_ignore_ascii_case(name);
        if !tables.iter().any(|it| it.enabled && same(&it.name)) {
            let known = tables.iter().filter(|it| it.enabled);
            let known: Vec<&str> = known.map(|it| it.name.as_str()).collect();
            let problem = match known.is_empty() {
                true => format!("has {name:?}, and there are no [[tables]]"),
                false => format!(
                    "has {name:?}, which is not a table; there are {}",
                    known.join(", ")
                ),
            };
            return Err(section.bad("tables", &problem));
        }
        if names[..index].iter().any(|it| same(it)) {
            return Err(section.bad("tables", &format!("has {name:?} twice; remove one of both")));
        }
    }
    let on_miss = section
        .section("on_miss")?
        .map(|row| row.scalars())
        .transpose()?;
    // SQLite's column names are case-insensitive.
    let columns = on_miss.as_deref().unwrap_or_default();
    let repeated = columns.iter().enumerate().find(|(index, (name, _))| {
        let mut before = columns[..*index].iter();
        before.any(|(other, _)| other.eq_ignore_ascii_case(name))
    });
    if let Some((_, (name, _))) = repeated {
        let problem = format!("has {name:?} twice, regardless of letter case; remove one of both");
        return Err(section.bad("on_miss", &problem));
    }
    if on_miss.as_ref().is_some_and(Vec::is_empty) {
        let problem = "has no columns; write on_miss = { COLUMN = VALUE }";
        return Err(section.bad("on_miss", problem));
    }
    Ok(FirstOfConfig {
        name: name.to_owned(),
        tables: names.into_iter().map(str::to_owned).collect(),
        on_miss,
        line: section.line(),
    })
}
