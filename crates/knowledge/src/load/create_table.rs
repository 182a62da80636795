//! The text of a derived `create.sql`.

use crate::sql_name::quote_name;

/// `create table` for columns with their declared types and comments.
pub(super) fn create_table(table: &str, columns: &[(&str, &str, &str)]) -> String {
    let mut sql = format!("create table {} (\n", quote_name(table));
    for (number, (name, declaration, comment)) in (1..).zip(columns) {
        let name = quote_name(name);
        let comma = if number < columns.len() { "," } else { "" };
        sql.push_str(&format!("  {name} {declaration}{comma}{comment}\n"));
    }
    sql.push_str(");\n");
    sql
}
