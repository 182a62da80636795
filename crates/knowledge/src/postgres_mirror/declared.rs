//! Maps the declared type of a column in SQLite to a type of PostgreSQL.

/// The types of PostgreSQL that a column may be declared with; SQLite accepts any word.
const OWN_TYPES: [&str; 33] = [
    "bit",
    "boolean",
    "bool",
    "box",
    "bytea",
    "cidr",
    "circle",
    "citext",
    "date",
    "daterange",
    "hstore",
    "inet",
    "int4range",
    "int8range",
    "interval",
    "json",
    "jsonb",
    "line",
    "lseg",
    "ltree",
    "macaddr",
    "macaddr8",
    "money",
    "numrange",
    "path",
    "point",
    "polygon",
    "time",
    "timestamp",
    "timestamptz",
    "tsrange",
    "tstzrange",
    "uuid",
];

/// The type for a column. Types of PostgreSQL are kept; others follow SQLite's affinity rules for
/// the words in a declaration, with types that can store all values that SQLite can.
pub(super) fn postgres_type(declared: &str) -> String {
    let lower = declared.trim().to_ascii_lowercase();
    let element = lower.strip_suffix("[]").unwrap_or(&lower);
    let word = element.split([' ', '(']).next().unwrap_or_default();
    if OWN_TYPES.contains(&word) {
        return lower;
    }
    if matches!(word, "numeric" | "decimal") || lower.ends_with("[]") {
        return lower;
    }
    let has = |part: &str| lower.contains(part);
    let name = if word == "datetime" {
        "timestamp"
    } else if has("int") {
        "bigint"
    } else if has("blob") {
        "bytea"
    } else if has("real") || has("floa") || has("doub") {
        "double precision"
    } else {
        "text"
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_keep_their_meaning() {
        for (declared, expected) in [
            ("INTEGER", "bigint"),
            ("int", "bigint"),
            ("unsigned big int", "bigint"),
            ("TEXT", "text"),
            ("TEXT BOOLEAN", "text"),
            ("varchar(20)", "text"),
            ("BLOB", "bytea"),
            ("REAL", "double precision"),
            ("double precision", "double precision"),
            ("float", "double precision"),
            ("numeric(10, 2)", "numeric(10, 2)"),
            ("DECIMAL", "decimal"),
            ("", "text"),
            ("inet", "inet"),
            ("cidr", "cidr"),
            ("point", "point"),
            ("interval", "interval"),
            ("int4range", "int4range"),
            ("timestamp with time zone", "timestamp with time zone"),
            ("timestamptz", "timestamptz"),
            ("datetime", "timestamp"),
            ("boolean", "boolean"),
            ("uuid", "uuid"),
            ("jsonb", "jsonb"),
            ("text[]", "text[]"),
            ("whatever", "text"),
        ] {
            assert_eq!(postgres_type(declared), expected, "{declared}");
        }
    }
}
