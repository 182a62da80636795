//! A KnowDB folder for tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// One table `t(id, generation)` of integers.
pub(crate) fn folder(config: &str, data: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    fs::create_dir(path.join("t")).expect("an empty folder");
    write_config(path, config);
    let create = "create table {table} (id integer, generation integer)";
    fs::write(path.join("t/create.sql"), create).expect("a folder of ours");
    let insert = "insert into {table} values (?1, ?2)";
    fs::write(path.join("t/insert.sql"), insert).expect("a folder of ours");
    write_data(path, data);
    folder
}

/// `config` is part of the table's entry.
pub(crate) fn write_config(folder: &Path, config: &str) {
    let text = format!(
        "version = 2\n[[tables]]\nname = \"t\"\ncolumns.by_header = [\"id\", \"generation\"]\n{config}\n"
    );
    replace(&folder.join("knowdb.toml"), &text);
}

pub(crate) fn write_data(folder: &Path, rows: &str) {
    replace(
        &folder.join("t/data.csv"),
        &format!("id,generation\n{rows}"),
    );
}

/// Replaces a file atomically, so that a watcher never sees a partial file.
pub(crate) fn replace(file: &Path, text: &str) {
    let next = file.with_added_extension("next");
    fs::write(&next, text).expect("a folder of ours");
    fs::rename(next, file).expect("a folder of ours");
}

/// `count` rows of one generation.
pub(crate) fn rows(count: i64, generation: i64) -> String {
    (1..=count)
        .map(|id| format!("{id},{generation}\n"))
        .collect()
}
