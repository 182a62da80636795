//! Access logs, line by line.

use super::support::check;

const COMBINED: &str = r#"203.0.113.9 - amy [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "https://x.example/" "curl/8.1""#;

#[test]
fn a_combined_line_gives_its_fields_in_order() {
    check(
        "access",
        &[],
        COMBINED,
        "1 ip:ip=203.0.113.9 user:text=amy time:time=2000-10-10 13:55:36-07:00 \
         http/request:text=GET /a?b=c HTTP/1.1 http/status:int=200 length:int=2326 \
         http/referer:text=https://x.example/ http/agent:text=curl/8.1",
    );
}

#[test]
fn a_common_line_has_no_referer_and_no_agent() {
    check(
        "access",
        &[],
        "::1 - - [10/Oct/2000:13:55:36 +0530] \"GET / HTTP/1.0\" 304 -\r\n",
        "1 ip:ip=::1 time:time=2000-10-10 13:55:36+05:30 http/request:text=GET / HTTP/1.0 \
         http/status:int=304",
    );
}

#[test]
fn odd_lines_that_are_read() {
    let start = "[10/Oct/2000:13:55:36 +0000]";
    let read = "time:time=2000-10-10 13:55:36+00:00";
    for (line, expected) in [
        // A host name, a user with a blank and a bracket.
        (
            format!(r#"www.example.com ident j doe [x] {start} "-" 408 0 "-" "-""#),
            format!(
                "1 ip:text=www.example.com user:text=j doe [x] {read} http/status:int=408 length:int=0"
            ),
        ),
        // A name that imitates a time.
        (
            format!(r#"1.2.3.4 - a [01/Jan/1999:00:00:00 +0000] \"x {start} "GET /" 200 1"#),
            format!(
                r#"1 ip:ip=1.2.3.4 user:text=a [01/Jan/1999:00:00:00 +0000] \"x {read} http/request:text=GET / http/status:int=200 length:int=1"#
            ),
        ),
        // Escaped quotes are kept as written; requests of other protocols are text.
        (
            format!(r#"1.2.3.4 - - {start} "GET /\"x\\ HTTP/1.1" 400 1 "a\"b" """#),
            format!(
                r#"1 ip:ip=1.2.3.4 {read} http/request:text=GET /\"x\\ HTTP/1.1 http/status:int=400 length:int=1 http/referer:text=a\"b http/agent:text="#
            ),
        ),
        (
            format!(r#"- - - {start} "\x16\x03\x01" - - "-" "ua" "10.0.0.1, 10.0.0.2" 0.003"#),
            format!(
                r#"1 {read} http/request:text=\x16\x03\x01 http/agent:text=ua extra:text="10.0.0.1, 10.0.0.2" 0.003"#
            ),
        ),
        // ISO 8601, as some servers are configured to log.
        (
            r#"1.2.3.4 - - [2026-03-01T10:15:02+02:00] "GET / HTTP/1.1" 200 5"#.into(),
            "1 ip:ip=1.2.3.4 time:time=2026-03-01 10:15:02+02:00 http/request:text=GET / HTTP/1.1 \
             http/status:int=200 length:int=5"
                .into(),
        ),
        // Not an address: text, although it looks like one.
        (
            format!(r#"256.1.1.1 - - {start} "é" 200 1"#),
            format!(
                "1 ip:text=256.1.1.1 {read} http/request:text=é http/status:int=200 length:int=1"
            ),
        ),
    ] {
        check("access", &[], line, &expected);
    }
}

#[test]
fn broken_lines_say_where() {
    for (line, reason) in [
        ("x", "byte 1: missing client address"),
        (" 1.2.3.4 - -", "byte 1: missing client address"),
        (
            "1.2.3.4 - -",
            "byte 11: missing time in brackets after the user",
        ),
        ("1.2.3.4 - - [", "byte 13: missing `]` after the time"),
        ("1.2.3.4 - - []", "byte 14: not a date and time: ``"),
        (
            "1.2.3.4 - - [31/Feb/2000:13:55:36 -0700] \"\" 1 1",
            "byte 14: not a date and time: `31/Feb/2000:13:55:36 -0700`",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700]\"GET\" 200 1",
            "byte 41: missing blank after the `]`",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] GET 200 1",
            "byte 42: missing request",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET / 200 1\\",
            "byte 42: the request has no closing quote",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 2x0 1",
            "the status `2x0` is not a number",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200 9999999999999999999",
            "the length `9999999999999999999` is not a number",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200 ",
            "byte 54: missing length",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200 1 \"r\" \"a",
            "byte 60: the agent has no closing quote",
        ),
        (
            "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200 1 \"r\" a",
            "byte 60: missing agent",
        ),
    ] {
        check("access", &[], line, &format!("1! {reason}"));
    }
}

#[test]
fn good_and_bad_lines_keep_their_numbers() {
    let source = format!("{COMBINED}\n\n\r\nbad\n{COMBINED}");
    let expected = "1 ip:ip=203.0.113.9 user:text=amy time:time=2000-10-10 13:55:36-07:00 \
         http/request:text=GET /a?b=c HTTP/1.1 http/status:int=200 length:int=2326 \
         http/referer:text=https://x.example/ http/agent:text=curl/8.1";
    let fifth = expected.replacen('1', "5", 1);
    let all = format!("{expected}\n{fifth}\n4! byte 1: missing client address");
    check("access", &[], source, &all);
}
