//! `lookaside pg list`.

use std::fs;
use std::path::Path;

use crate::pg::Data;

/// Regardless of the lengths of other paths.
#[test]
fn a_list_has_a_line_for_each_fact() {
    let data = Data::new();
    let deep = format!("{}/{}", "long".repeat(40), "path".repeat(40));
    fs::create_dir_all(data.project.file(&deep).parent().unwrap()).unwrap();
    let url = data.run(&["start", &deep]).ended(0).out;
    let short = data.run(&["start", "data"]).ended(0).out;
    let listed = data.run(&["list"]).ended(0).out;
    data.run(&["stop", &deep]).ended(0);
    let lines: Vec<_> = listed.lines().collect();
    for (folder, url) in [(deep.as_str(), url), ("data", short)] {
        let folder = data.project.file(folder).canonicalize().unwrap();
        let at = lines.iter().position(|line| Path::new(line) == folder);
        let at = at.unwrap_or_else(|| panic!("{listed}"));
        assert!(
            lines[at + 1].starts_with("  running, PostgreSQL "),
            "{listed}"
        );
        assert_eq!(lines[at + 2], format!("  {}", url.trim_end()));
    }
    assert!(
        lines.iter().all(|line| *line == line.trim_end()),
        "{listed}"
    );
}
