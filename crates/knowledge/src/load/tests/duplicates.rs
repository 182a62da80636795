//! Warnings about keys with several rows.

use super::*;

const PLAIN: &str = "[[tables]]\nname = 't'\ncolumns.by_header = ['a', 'b']\n";

/// The warnings of a table `t(a, b)`, created by `create` or derived.
fn warnings(create: Option<&str>, data: &str, statements: &[UsedStatement]) -> Vec<String> {
    let folder = Folder::new(PLAIN, data);
    match create {
        Some(create) => folder.write("t/create.sql", create),
        None => {
            folder.remove("t/create.sql");
            folder.remove("t/insert.sql");
        }
    }
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let (_, mut report) = load_all(&config, statements).unwrap();
    report.tables.remove(0).warnings
}

#[test]
fn keys_are_counted_and_one_is_shown() {
    let long = "x".repeat(50);
    let data = format!("a,b\n1,x\n1,y\n1,z\n2,x\n3,y\n3,y\n4,{long}\n5,{long}\n,x\n,x\n");
    let a = "2 keys (a) have several rows, such as 1 with 3, and a lookup takes the first one; remove \
             the others, or define which by order by";
    let both = "1 key (a, b) has several rows, such as 3, \"y\" with 2, and a lookup takes the first \
                one; remove the others, or define which by order by";
    let filtered = "1 key (a) where b is \"y\" has several rows, such as 3 with 2, and a lookup takes \
                    the first one; remove the others, or define which by order by";
    for (sql, expected) in [
        ("select b from t where a = :x", Some(a)),
        ("select b from T where :x = A", Some("2 keys (A)")),
        ("select b from local.t where a = :x", Some(a)),
        ("select 1 from t where a = :x", None),
        ("select b from t where b = :y and a = :x", Some(both)),
        ("select a from t where a = :x and b = 'y'", Some(filtered)),
        (
            "select a from t where b = :x",
            Some("3 keys (b) have several rows, "),
        ),
        ("select b from t where a = :x limit 1", None),
        ("select b from t where a = :x order by b desc", None),
        ("select b from t where a = 1", None),
        ("select b from t where a >= :x", None),
        ("select nothing from", None),
        ("select c from t where c = :x", None),
    ] {
        let found = warnings(None, &data, &[used(sql)]);
        match (&found[..], expected) {
            ([], None) => {}
            ([found], Some(expected)) if found.starts_with(expected) => {}
            (found, expected) => panic!("{sql}: {found:?}, not {expected:?}"),
        }
    }
    let found = warnings(None, &data, &[used("select a from t where b = :x")]);
    let shown: Vec<&str> = found[0].split(", ").collect();
    assert!(
        [
            "such as \"x\" with 4".to_owned(),
            format!("such as \"{}\"… with 2", &long[..40])
        ]
        .contains(&shown[1].to_owned()),
        "{found:?}"
    );
}

#[test]
fn each_key_is_counted_once_and_only_where_one_row_is_taken() {
    let data = "a,b\n1,x\n1,y\n";
    let all = |sql: &str| UsedStatement {
        takes_all_rows: true,
        ..used(sql)
    };
    let sql = "select b from t where a = :x";
    assert_eq!(warnings(None, data, &[all(sql)]).len(), 0);
    let statements = [used(sql), all(sql), used("select a from t where :key = a")];
    assert_eq!(warnings(None, data, &statements).len(), 1);
    assert_eq!(warnings(None, "a,b\n1,x\n2,x\n", &statements).len(), 0);
}

#[test]
fn keys_are_compared_as_the_column_compares() {
    let sql = [used("select b from t where a = :x")];
    for (create, data, expected) in [
        ("create table {table} (a, b)", "a,b\nx,1\nX,1\n", 0),
        (
            "create table {table} (a collate nocase, b)",
            "a,b\nx,1\nX,1\n",
            1,
        ),
        ("create table {table} (a integer, b)", "a,b\n1,1\n01,1\n", 1),
        ("create table {table} (a text, b)", "a,b\n1,1\n01,1\n", 0),
        // An index that is not unique for the whole key.
        (
            "create table {table} (a, b, unique (a, b))",
            "a,b\n1,1\n1,2\n",
            1,
        ),
        (
            "create table {table} (a, b); create unique index i on t (a) where b = '2'",
            "a,b\n1,1\n1,3\n",
            1,
        ),
        (
            "create table {table} (a, b); create unique index i on t (a || b)",
            "a,b\n1,1\n1,3\n",
            1,
        ),
    ] {
        assert_eq!(
            warnings(Some(create), data, &sql).len(),
            expected,
            "{create}"
        );
    }
}
