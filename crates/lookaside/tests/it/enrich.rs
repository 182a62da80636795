//! `lookaside enrich` from end to end.

use std::fs;
use std::io::{BufRead as _, BufReader, Seek as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use crate::program::{Project, example, lookaside, run, run_with_input};

const FIRST_EVENT: &str = concat!(
    r#"{"ip":"220.247.1.40","time":"2026-03-01 01:00:14","epoch":1772323214,"#,
    r#""request":"GET / HTTP/1.1","status":200,"class":"ok","bytes":1725,"referer":"direct","#,
    r#""agent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 "#,
    r#"(KHTML, like Gecko) Version/19.2 Safari/605.1.15","asn":4200000943,"#,
    r#""org":"Valley Alder Telecom Cooperative"}"#,
);

const ONE_EVENT: &str = "{\"host\":\"web-1\",\"status\":200}\n";
const ONE_ENRICHED: &str =
    "{\"host\":\"web-1\",\"status\":200,\"class\":\"ok\",\"owner\":\"shop\",\"rack\":7}\n";

#[test]
fn standard_input_is_unpacked_as_files_are() {
    let project = Project::new();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(ONE_EVENT.as_bytes()).unwrap();
    let gzipped = encoder.finish().unwrap();
    let zipped = zstd::encode_all(ONE_EVENT.as_bytes(), 1).unwrap();
    let enrich = |stdin: Stdio| {
        let mut command = lookaside();
        let arguments = ["enrich", ".", "-", "--rule", "/json/events"];
        command.args(arguments).current_dir(project.path());
        command.stdin(stdin).stdout(Stdio::piped()).spawn().unwrap()
    };
    let out = |child: std::process::Child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    for packed in [gzipped, zipped] {
        let mut child = enrich(Stdio::piped());
        child.stdin.take().unwrap().write_all(&packed).unwrap();
        assert_eq!(out(child), ONE_ENRICHED, "through a pipe");

        // Another process has read a line of the file that both share.
        fs::write(project.file("packed"), [b"a line\n", &packed[..]].concat()).unwrap();
        let mut file = fs::File::open(project.file("packed")).unwrap();
        file.seek(std::io::SeekFrom::Start(7)).unwrap();
        assert_eq!(out(enrich(file.into())), ONE_ENRICHED, "redirected");
    }
}

#[test]
fn the_example_runs_from_any_folder_with_any_number_of_workers() {
    let one = run([Path::new("enrich"), &example(), Path::new("--workers=1")]).ended(0);
    assert_eq!(one.out.lines().count(), 5000);
    assert_eq!(one.out.lines().next(), Some(FIRST_EVENT));
    assert_eq!(one.out.matches("\"org\":").count(), 4894);
    assert_eq!(one.out.matches("\"department\":").count(), 618);
    one.err_has(&[
        "5,000 events in ",
        "1 worker, model access\n",
        "10,000 lookups",
        "native ",
        "rejects: 0\n",
        "failed lookups: 0\n",
    ]);

    let one = fs::read(example().join("access.log")).unwrap();
    let out = |workers: &str| {
        lookaside()
            .args([
                Path::new("enrich"),
                &example(),
                Path::new(workers),
                Path::new("-q"),
            ])
            .current_dir(std::env::temp_dir())
            .output()
            .unwrap()
    };
    let (two, seven) = (out("--workers=2"), out("--workers=7"));
    assert!(two.stdout.len() > one.len(), "richer events are longer");
    assert!(two.stderr.is_empty(), "-q says nothing");
    assert!(
        two.stdout == seven.stdout,
        "the order does not depend on the workers"
    );
}

#[test]
fn standard_input_takes_the_place_of_the_projects_input() {
    let project = Project::new();
    let said = run_with_input(
        [Path::new("enrich"), project.path(), Path::new("-")],
        &ONE_EVENT.repeat(3),
    )
    .ended(0);
    assert_eq!(said.out, ONE_ENRICHED.repeat(3));
    said.err_has(&["3 events in "]);
}

#[test]
fn flags_come_before_the_project() {
    let project = Project::new();
    project.write("hosts.csv", "host;status\nweb-2;500\n");
    project.write(
        "models/csv.oml",
        "name : plain rule : /csv/*\n---\n* = take() ;\n",
    );
    let said = project.run(&[
        "enrich",
        ".",
        "hosts.csv",
        "-f",
        "csv",
        "--option",
        "delimiter=semicolon",
        "--output-format",
        "kv",
        "-q",
    ]);
    assert_eq!(said.ended(0).out, "host=web-2 status=500\n");
    let arguments = [
        "enrich",
        ".",
        "--model",
        "plain",
        "--output-format",
        "csv",
        "-q",
    ];
    let said = project.run(&arguments).ended(0);
    assert_eq!(said.out.lines().next(), Some("host,status,message"));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = lookaside()
        .args([Path::new("enrich"), &example()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(line.trim_end(), FIRST_EVENT);
    assert!(!err.contains("error"), "{err}");
}

#[test]
fn rejects_are_counted_shown_and_kept() {
    let project = Project::new();
    let lines: String = (0..7)
        .map(|index| format!("{ONE_EVENT}broken {index}\n"))
        .collect();
    project.write("mixed.json", &lines);
    let said = project
        .run(&["enrich", ".", "mixed.json", "--reject", "bad.log"])
        .ended(0);
    assert_eq!(said.out, ONE_ENRICHED.repeat(7));
    said.err_has(&[
        "14 events in ",
        "  rejects: 7\n    mixed.json:2: ",
        ": broken 0\n    mixed.json:4: ",
        "    mixed.json:10: ",
        "    and 2 more\n",
    ]);
    let kept: String = (0..7).map(|index| format!("broken {index}\n")).collect();
    assert_eq!(project.read("bad.log"), kept);
}

#[test]
fn strict_ends_with_code_1_and_leaves_no_output() {
    let project = Project::new();
    project.write(
        "mixed.json",
        &format!("{ONE_EVENT}\u{1b}[31mbroken\n{ONE_EVENT}"),
    );
    let arguments = ["enrich", ".", "mixed.json", "--strict", "-o", "out.json"];
    project.run(&arguments).ended(1).err_has(&[
        "3 events in ",
        "; failed before the end of the input\n",
        "rejects: 1\n    mixed.json:2: ",
        "error: `mixed.json`, line 2: ",
    ]);
    assert!(!project.file("out.json").exists());
    project
        .run(&["enrich", ".", "--strict", "-o", "out.json"])
        .ended(0);
    assert_eq!(project.read("out.json").lines().count(), 4);
}

#[test]
fn an_output_file_appears_whole() {
    let project = Project::new();
    project.write("out.json", "what was there before\n");
    project
        .run(&["enrich", ".", "missing.json", "-o", "out.json"])
        .ended(1);
    assert_eq!(project.read("out.json"), "what was there before\n");
    project.run(&["enrich", ".", "-o", "out.json"]).ended(0);
    assert_eq!(project.read("out.json").lines().count(), 4);
    let names: Vec<_> = fs::read_dir(project.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("out.json"))
        .collect();
    assert_eq!(names, ["out.json"], "nothing half-written stays");
}

#[test]
fn compressed_files_are_read_and_written() {
    let project = Project::new();
    for name in ["out.json.gz", "out.json.zst"] {
        project.run(&["enrich", ".", "-o", name]).ended(0);
        let plain = project.read("events.json").len();
        assert!(fs::metadata(project.file(name)).unwrap().len() > 0 && plain > 0);
        let arguments = ["enrich", ".", name, "--model", "plain", "-q"];
        project.write("models/plain.oml", "name : plain\n---\n* = take() ;\n");
        let said = project.run(&arguments).ended(0);
        assert_eq!(
            said.out.lines().next(),
            Some(concat!(
                r#"{"host":"web-1","status":200,"class":"ok","owner":"shop","rack":7,"#,
                r#""message":"GET /"}"#
            ))
        );
    }
}

#[test]
fn a_limit_takes_the_first_events() {
    let project = Project::new();
    let said = project.run(&["enrich", ".", "--limit", "2"]).ended(0);
    let all = project.run(&["enrich", ".", "-q"]).ended(0);
    assert_eq!(all.out.lines().count(), 4);
    assert!(all.out.starts_with(&said.out) && said.out.lines().count() == 2);
    said.err_has(&["2 events in ", "; ended by --limit\n"]);
    project.run(&["enrich", ".", "--limit", "0"]).ended(2);
}

#[test]
fn the_null_sink_takes_everything() {
    let said = run([
        Path::new("enrich"),
        &example(),
        Path::new("-o"),
        Path::new("null"),
    ])
    .ended(0);
    assert_eq!(said.out, "");
    said.err_has(&["5,000 events in ", "wrote 1."]);
}

#[test]
fn values_that_are_not_times_are_in_the_summary() {
    let project = Project::with(&[
        ("knowdb.toml", "version = 2\n[enrich]\nformat = 'json'\n"),
        (
            "models/a.oml",
            "name : a\nrule : /*\n---\nday = read(t) | Time::parse | Time::truncate(day) ;\n",
        ),
    ]);
    let summary = |input: &str| {
        let arguments = vec!["enrich", project.path().to_str().unwrap(), "-"];
        run_with_input(arguments, input).ended(0).err
    };
    let err = summary("{\"t\":\"2026-01-01T08:00:00Z\"}\n{\"t\":\"soon\"}\n{}\n");
    let line = "  values that functions of times ignored, as they are not times: 1\n";
    assert!(err.contains(line), "{err}");
    let err = summary("{\"t\":\"2026-01-01T08:00:00Z\"}\n");
    assert!(!err.contains("functions of times"), "{err}");
}

#[test]
fn a_time_without_offset_is_read_in_the_projects_zone() {
    let project = Project::with(&[
        (
            "knowdb.toml",
            "version = 2\n[enrich]\nformat = 'syslog'\ntimezone = 'Asia/Tokyo'\n",
        ),
        (
            "models/a.oml",
            "name : a\nrule : /syslog/*\n---\nepoch = pipe take(time) | Time::to_ts ;\n",
        ),
    ]);
    let epoch = |line: &str, flags: &[&str]| {
        let mut arguments = vec!["enrich", project.path().to_str().unwrap(), "-", "-q"];
        arguments.extend(flags);
        run_with_input(arguments, line).ended(0).out
    };
    let [with, without] = [
        "<34>1 2026-01-01T08:00:00Z host app - - - hello\n",
        "<34>Jan  1 08:00:00 host su[1]: hello\n",
    ];
    let year = ["--option", "year=2026"];
    let year_in_berlin = [&year[..], &["--timezone", "Europe/Berlin"]].concat();
    for (line, flags, expected) in [
        // A written offset overrides the zone.
        (with, &[][..], 1_767_254_400),
        (with, &["--timezone", "UTC"], 1_767_254_400),
        // Without one it is 8 o'clock there: 9 hours ahead of UTC in Tokyo, 1 in Berlin's winter.
        (without, &year, 1_767_254_400 - 9 * 3600),
        (without, &year_in_berlin, 1_767_254_400 - 3600),
    ] {
        assert_eq!(
            epoch(line, flags),
            format!("{{\"epoch\":{expected}}}\n"),
            "{flags:?}"
        );
    }
}

#[test]
fn a_growing_file_is_followed() {
    let project = Project::new();
    project.write("grows.json", ONE_EVENT);
    let mut child = lookaside()
        .args(["enrich", ".", "grows.json", "--follow"])
        .current_dir(project.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut log = fs::OpenOptions::new()
        .append(true)
        .open(project.file("grows.json"))
        .unwrap();
    for _ in 0..3 {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, ONE_ENRICHED);
        log.write_all(ONE_EVENT.as_bytes()).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_new_project_reads_formats_that_know_only_text() {
    let project = Project::new();
    project.write("events.csv", "host,status\nweb-1,200\n");
    project.write("events.kv", "host=web-1 status=200\n");
    for format in ["csv", "kv"] {
        let file = format!("events.{format}");
        let arguments = ["enrich", ".", &file, "--format", format];
        assert_eq!(project.run(&arguments).ended(0).out, ONE_ENRICHED);
    }
}

#[test]
fn times_keep_their_offset_when_asked_to() {
    let example = example();
    let example = example.to_str().unwrap();
    for (format, expected) in [
        (
            "json",
            "{\"ip\":\"220.247.1.40\",\"time\":\"2026-03-01T01:00:14+01:00\",",
        ),
        ("csv", "220.247.1.40,2026-03-01T01:00:14+01:00,"),
        ("kv", "ip=220.247.1.40 time=2026-03-01T01:00:14+01:00 "),
    ] {
        let times = ["--output-option", "times=rfc3339"];
        let flags = ["--limit", "1", "--output-format", format];
        let said = run([&["enrich", example][..], &flags, &times].concat()).ended(0);
        assert!(said.out.contains(expected), "{}", said.out);
    }
}
