//! Headers that suggest another delimiter.

use super::Folder;

#[test]
fn a_likely_delimiter_is_reported() {
    let told = |delimiter: &str, header: &str| {
        let config = format!("[[tables]]\nname = 't'\ncsv.delimiter = \"{delimiter}\"\n");
        let folder = Folder::new(&config, format!("{header}\n"));
        folder.write("t/insert.sql", "insert into {table} values (?1, null)");
        folder.load().unwrap().1.tables[0].warnings.len()
    };
    for (delimiter, header, expected) in [
        (",", "a;b", 1),
        (",", "\u{feff}a;b", 1),
        (",", "a;\"b\"", 1),
        (",", "\"Name; first\"", 0),
        (",", "\"Name, first\"", 0),
        (",", "\u{feff}\"Name, first\"", 0),
        (",", "\r\n\n\"Name; first\"", 0),
        (";", "\"Name; first\"", 0),
    ] {
        assert_eq!(told(delimiter, header), expected, "{delimiter} {header:?}");
    }
}
