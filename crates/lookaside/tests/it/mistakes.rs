//! Error messages for mistakes of users: position, cause and hint.

use std::process::Stdio;

use crate::program::Project;

/// Runs `enrich .` on a new project with one file changed, and compares standard error as a whole.
#[track_caller]
fn check(file: &str, text: &str, expected: &str) {
    let project = Project::new();
    project.write(file, text);
    let said = project.run(&["enrich", "."]);
    assert!((1..=2).contains(&said.code), "{}", said.code);
    assert_eq!(said.out, "");
    assert_eq!(said.err, expected);
}

#[test]
fn in_the_configuration() {
    check(
        "knowdb.toml",
        "version = 2\n\n[[tables]]\nname = 'hosts'\ndatafile = 'x.csv'\n",
        "error: ./knowdb.toml:5: unknown key tables.datafile; did you mean data_file?\n",
    );
    check(
        "knowdb.toml",
        "version = 2\n[enrich]\nouput = '-'\n",
        "error: ./knowdb.toml:3: unknown key enrich.ouput; did you mean \"output\"?\n  \
         help: the keys of [enrich] are input, format, options, types, rule, rule_key, model, output, output_format, \
         output_options, unmatched, split, timezone, reject, workers, fresh, on_lookup_failure, strict, watch, \
         replay_bytes, reconnect_timeout_ms, drain_timeout_ms, rotate_size, rotate_every, rotate_keep\n",
    );
    check(
        "knowdb.toml",
        "version = 2\n[enrich]\nformat = 'json'\n",
        "error: no input is specified\n  \
         help: name files after the folder, `-` for standard input, or `input` in [enrich]\n",
    );
}

#[test]
fn in_a_table() {
    check(
        "hosts/data.csv",
        "name,owner,rack\nweb-1,shop,7\nweb-2,shop\n",
        "error: ./hosts/data.csv:3: 2 fields where the first record has 3\n",
    );
}

#[test]
fn in_a_model() {
    check(
        "models/events.oml",
        "name : events\nrule : /json/*\n---\na = raed(x) ;\nb = pipe read(x) | to_jsn ;\n",
        "error: ./models/events.oml cannot be used
  × unknown function or type `raed`
   ╭─[./models/events.oml:4:5]
 3 │ ---
 4 │ a = raed(x) ;
   ·     ──┬─
   ·       ╰── here
 5 │ b = pipe read(x) | to_jsn ;
   ╰────
  help: did you mean `read`?
  × unknown function `to_jsn`
   ╭─[./models/events.oml:5:20]
 4 │ a = raed(x) ;
 5 │ b = pipe read(x) | to_jsn ;
   ·                    ───┬──
   ·                       ╰── here
   ╰────
  help: did you mean `to_json`?
",
    );
    check(
        "models/events.oml",
        "name : other\nrule : /csv/*\n---\na = read(x) ;\n",
        "error: no enabled model has a rule for /json/events
  there are:
    other  (/csv/*)  ./models/events.oml
  help: name a model with --model, or another key with --rule
",
    );
}

#[test]
fn in_the_sql_of_a_model() {
    let project = Project::new();
    project.write(
        "models/events.oml",
        "name : e\nrule : /*\n---\na = select b from c where d = 1 ;\n",
    );
    for command in ["enrich", "check"] {
        let said = project.run(&[command, "."]).ended(1);
        said.err_has(&["[./models/events.oml:4:", "no such table: c"]);
    }
}

#[test]
fn a_missing_folder_has_a_way_out() {
    let project = Project::empty();
    project.run(&["enrich", "gone"]).ended(1).err_has(&[
        "error: gone: cannot be read\n",
        "  help: create a project there with `lookaside new gone`\n",
    ]);
}

#[test]
fn on_the_command_line() {
    let project = Project::new();
    for (flag, value) in [("--workers", "0"), ("--limit", "x")] {
        let said = project.run(&["enrich", ".", flag, value]).ended(2);
        said.err_has(&["write a whole number of at least 1"]);
    }
}

#[test]
fn in_the_format_of_a_whole_input() {
    let project = Project::new();
    project.write("bad.json", "[\n{\"host\":\n");
    let arguments = ["enrich", ".", "bad.json", "--rule", "/json/events"];
    project.run(&arguments).ended(0).err_has(&[
        "bad.json:1: an array instead of one object per line; try `jq -c '.[]'`: [\n",
        "  hint: all of the input was rejected; is this the format of the input (--format)?\n",
    ]);
}

#[test]
fn nobody_sees_the_parsers_inside() {
    let project = Project::new();
    let said = project.run(&["query", ".", "select 1", "--log-level", "trace"]);
    let said = said.ended(0).err.to_lowercase();
    assert!(!said.contains("sql"), "{said}");
}

#[test]
fn in_where_to_write() {
    let project = Project::new();
    for name in ["knowdb.toml", "models/events.oml", "./hosts/data.csv"] {
        let before = project.read(name);
        for flag in ["--output", "--reject"] {
            // The name implies no format, which would be another mistake.
            let arguments = ["enrich", ".", "--output-format", "json", flag, name];
            let said = project.run(&arguments).ended(1);
            said.err_has(&[&format!("error: output {name} is a file of the project\n")]);
        }
        assert_eq!(project.read(name), before);
    }
    for (arguments, way_out) in [
        (["-o", "x.json", "--reject", "x.json"], "; use two files"),
        (
            ["-o", "events.json", "--reject", "x.json"],
            "; write to another file",
        ),
        (
            ["-o", "x.json", "--reject", "events.json"],
            "; write to another file",
        ),
    ] {
        let before = project.read("events.json");
        let arguments = [&["enrich", "."][..], &arguments].concat();
        project.run(&arguments).ended(1).err_has(&[way_out]);
        assert!(!project.file("x.json").exists());
        assert_eq!(project.read("events.json"), before);
    }
}

#[test]
fn in_the_values_of_the_enrich_section() {
    let project = Project::new();
    project.write(
        "knowdb.toml",
        "version = 2\n[[tables]]\nname = 'hosts'\n[enrich]\ninput = 'gone.json'\nformat = 'jsn'\n\
         output_format = 'csv'\ntimezone = 'Mars'\nmodel = 'event'\n\
         [enrich.output_options]\ndelim = ';'\n",
    );
    let said = project.run(&["check", "."]).ended(1);
    let expected = [
        "6: unknown input format `jsn`; did you mean `json`?",
        "10: format `csv` has no option `delim`; ",
        "8: unknown time zone Mars\n",
        "5: input ./gone.json does not exist\n",
        "9: there is no model event; did you mean \"events\"?\n",
    ];
    let expected = expected.map(|line| format!("error: ./knowdb.toml:{line}"));
    said.err_has(&expected.each_ref().map(String::as_str));

    for (output, expected) in [
        (
            "out.pb",
            "5: output `out.pb` would be Protocol Buffers, which",
        ),
        (
            "out.kv",
            "5: the name of output out.kv does not determine its format: .kv",
        ),
        (
            "out.csv'\noutput_options.delim = '",
            "6: format `csv` has no option `delim`",
        ),
    ] {
        let config = "version = 2\n[[tables]]\nname = 'hosts'\n[enrich]\n";
        project.write("knowdb.toml", &format!("{config}output = '{output}'\n"));
        let said = project.run(&["check", "."]).ended(1);
        said.err_has(&[&format!("error: ./knowdb.toml:{expected}")]);
    }

    project.write(
        "knowdb.toml",
        "version = 2\n[[tables]]\nname = 'hosts'\n[enrich]\ninput = '-'\nformat = 'raw'\n",
    );
    let said = project.run(&["check", "."]).ended(1);
    said.err_has(&["error: ./knowdb.toml:5: no enabled model has a rule for /raw/stdin\n"]);
}

#[test]
fn in_a_project_that_holds_nothing() {
    let project = Project::with(&[("knowdb.toml", "version = 2\n")]);
    let said = project.run(&["check", "."]).ended(0);
    assert_eq!(
        said.out,
        "no table is enabled in knowdb.toml\nno model in ./models\n"
    );
}

#[test]
fn issue_13_in_the_kind_of_an_output() {
    let project = Project::new();
    for (output, expected) in [
        (
            "out.parquet",
            "output `out.parquet` would be Parquet, which is not supported; write JSON",
        ),
        (
            "out.json.bz2",
            "would be bzip2, which is not supported; use a name that ends in .gz or .zst",
        ),
        ("out.xlsx", "would be Excel"),
        (
            "HTTP://127.0.0.1:9/x",
            match cfg!(feature = "http") {
                true => "no server answers",
                false => "this build does not support http:// help: build the program with it",
            },
        ),
        (
            "x.db",
            "output `x.db` would be SQLite, which is not supported",
        ),
        (
            "out.tsv",
            "--output-format csv --output-option delimiter=tab",
        ),
        ("out.yaml", "--output-format"),
        (
            "out.pb",
            "output `out.pb` would be Protocol Buffers, which is not supported",
        ),
        (
            "out.",
            "the name of output out. does not determine its format: it ends in a dot",
        ),
        (
            "out.kv",
            "the name of output out.kv does not determine its format: .kv does not name a format \
             help: name the format with --output-format: json, csv, kv or raw",
        ),
        ("out.json.bak", ".bak does not name a format"),
        (
            "out.parquet.gz",
            "output `out.parquet.gz` would be Parquet, which is not supported",
        ),
        (
            "out.json.Z",
            "would be compress (.Z), which is not supported",
        ),
        ("out.pdf", "would be PDF, which is not supported"),
        ("stdout", "write `-` for standard output, or `./stdout`"),
        ("NULL", "write `null` for no output, or `./NULL`"),
    ] {
        let said = project.run(&["enrich", ".", "-o", output]);
        assert!((1..=2).contains(&said.code), "{output}: {}", said.code);
        let err = said.err.replace("\n  ", " ");
        assert!(err.contains(expected), "{output}: {err}");
        assert!(!project.file(output).exists(), "{output}");
    }
    project.run(&["enrich", ".", "-o", "out.json.GZ"]).ended(0);
    let packed = std::fs::read(project.file("out.json.GZ")).unwrap();
    assert!(packed.starts_with(&[0x1f, 0x8b]));
    // An explicit format is used, and the extension of a format is recognized.
    project.run(&["enrich", ".", "-o", "out.csv"]).ended(0);
    let header = project.read("out.csv");
    assert!(header.starts_with("host,"), "{header}");
    project
        .run(&["enrich", ".", "-o", "json.csv", "--output-format", "json"])
        .ended(0);
    assert!(project.read("json.csv").starts_with('{'));
    project
        .run(&["enrich", ".", "-o", "out.pipes", "--output-format", "kv"])
        .ended(0);
    let tabs = ["--output-format=csv", "--output-option", "delimiter=tab"];
    project
        .run(&[&["enrich", ".", "-o", "out.tsv"][..], &tabs].concat())
        .ended(0);
    assert!(project.read("out.tsv").starts_with("host\t"));
}

#[test]
fn issue_13_in_the_kind_of_an_input() {
    let project = Project::new();
    project.write("events.bz2", "BZh91AY&SY\0\0\0\0");
    project.write("events.json.br", "anything");
    project.write("events.orc", "ORC\n\u{3}");
    project.write("p.json", "PAR1\u{15}\u{4}\u{15}PAR1");
    // Text that begins with the name of a format is text.
    for text in ["PAR1,host\na,web-1\n", "%PDF-1.4,host\n%a,web-1\n"] {
        project.write("text.csv", text);
        project
            .run(&["enrich", ".", "text.csv", "--format", "csv", "--strict"])
            .ended(0);
    }
    project.write("o.json", "ORC\n\u{3}ORC\u{17}");
    project.write("geo.mmdb", "anything");
    std::fs::write(project.file("u.json"), b"\xff\xfe{\0}\0\n\0").unwrap();
    for (input, expected) in [
        (
            "events.bz2",
            "is bzip2, which is not supported; pipe it in with `bzip2 -dc events.bz2 |`",
        ),
        ("events.json.br", "is Brotli, which is not supported"),
        ("events.orc", "is ORC, which is not supported"),
        ("o.json", "is ORC, which is not supported"),
        ("geo.mmdb", "is MaxMind DB, which is not supported"),
        (
            "u.json",
            "is UTF-16 text, which is not supported; pipe it in with `iconv -f UTF-16 -t UTF-8 u.json |`",
        ),
        (
            "p.json",
            "is Parquet, which is not supported; convert it to CSV or JSON lines first",
        ),
        (
            "s3://bucket/x.json",
            "has an unknown scheme; supported are files",
        ),
    ] {
        let said = project
            .run(&["enrich", ".", input, "--format", "json"])
            .ended(1);
        let err = said.err.replace("\n  ", " ");
        assert!(err.contains(expected), "{input}: {err}");
        assert!(!err.contains("No such file"), "{input}: {err}");
    }
    for (input, expected) in [
        ("http://u:secret@127.0.0.1:9/x.json", "http:// as a source"),
        ("http://127.0.0.1/x.json", "a port to listen on"),
        ("HTTPS://127.0.0.1/x.json", "https:// is not a source"),
    ] {
        let said = project.run(&["enrich", ".", input]).ended(2);
        let said = said.err_has(&[expected, "`curl -sS URL |`"]);
        assert!(!said.err.contains("secret"), "{}", said.err);
    }
}

#[test]
fn issue_13_in_the_kind_of_standard_input() {
    let project = Project::new();
    for (text, encoding) in [
        (&b"\xff\xfe{\0}\0\n\0"[..], "UTF-16"),
        (b"{\0}\0\n\0", "UTF-16LE"),
        (b"\0{\0}\0\n", "UTF-16BE"),
    ] {
        let read = |input: Stdio| {
            let mut command = crate::program::lookaside();
            let arguments = ["enrich", ".", "-", "--format", "json"];
            command.args(arguments).current_dir(project.path());
            let output = command.stdin(input).output().unwrap();
            let said = crate::program::Said::from(output).ended(1);
            let err = said.err.replace("\n  ", " ");
            assert!(
                err.contains("is UTF-16 text, which is not supported"),
                "{err}"
            );
            let way = format!("`iconv -f {encoding} -t UTF-8 FILE |`");
            assert!(err.contains(&way), "{err}");
        };
        std::fs::write(project.file("u.json"), text).unwrap();
        read(std::fs::File::open(project.file("u.json")).unwrap().into());
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, text).unwrap();
        drop(writer);
        read(reader.into());
    }
}

#[test]
fn issue_13_in_the_kind_of_a_table() {
    for (file, expected) in [
        (
            "geo.mmdb",
            "a MaxMind database, but table \"hosts\" must be CSV or JSON lines; write mmdb =",
        ),
        ("data.csv.bz2", "compressed in an unsupported format"),
        (
            "data.json",
            "JSON, but table \"hosts\" must be CSV or JSON lines; write one object a line",
        ),
        ("data.orc", "export its rows as CSV"),
        (
            "shop.db",
            "a database, but table \"hosts\" must be CSV or JSON lines",
        ),
    ] {
        let project = Project::new();
        project.write(&format!("hosts/{file}"), "a\n1\n");
        let config = format!("version = 2\n[[tables]]\nname = 'hosts'\ndata_file = '{file}'\n");
        project.write("knowdb.toml", &config);
        let said = project.run(&["check", "."]).ended(1);
        let err = said.err.replace("\n  ", " ").replace("│ ", "");
        assert!(err.contains(expected), "{file}: {err}");
    }
    // A CSV extension with other content.
    let project = Project::new();
    std::fs::write(project.file("hosts/data.csv"), b"PK\x03\x04\x14\0").unwrap();
    project.run(&["enrich", "."]).ended(1).err_has(&[
        "error: ./hosts/data.csv: this is zip, as files of Excel and OpenDocument are, but table \"hosts\"",
    ]);
}
