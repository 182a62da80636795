//! However the input is cut into blocks, the records, lines and rejects are the same.

use lookaside_stream::{Flow, FormatOptions, InputFormat, OutputFormat, Source, Summary};

use crate::{flow, options, run};

/// Runs the same input in blocks of every size, up to more than its own.
fn check(flow: &Flow, input: &'static [u8], expected: &str, rejects: &[(u64, &str)]) {
    for block_size in 1..input.len().max(1) + 3 {
        let source = Source::new().with_reader("input", input);
        let (out, summary) = run(flow, source, options(block_size)).unwrap();
        assert_eq!(out, expected, "blocks of {block_size}");
        assert_eq!(shown(&summary), rejects, "blocks of {block_size}");
        let read = summary.events_out + summary.rejects.count();
        assert_eq!(summary.events_in, read, "blocks of {block_size}");
    }
}

fn shown(summary: &Summary) -> Vec<(u64, &str)> {
    let first = summary.rejects.first().iter();
    first
        .map(|reject| {
            assert_eq!(&*reject.source, "input");
            (reject.line, &*reject.reason)
        })
        .collect()
}

fn csv() -> Flow {
    Flow::new(
        InputFormat::new("csv", &FormatOptions::new()).unwrap(),
        OutputFormat::new("json", &FormatOptions::new()).unwrap(),
    )
}

#[test]
fn line_ends() {
    check(&flow("raw", "raw"), b"", "", &[]);
    check(&flow("raw", "raw"), b"\n", "", &[]);
    check(&flow("raw", "raw"), b"a\nbb\nccc\n", "a\nbb\nccc\n", &[]);
    check(
        &flow("raw", "raw"),
        b"a\nbb\nno end",
        "a\nbb\nno end\n",
        &[],
    );
    check(&flow("raw", "raw"), b"a\r\n\r\nbb\r\n", "a\nbb\n", &[]);
    check(&flow("raw", "raw"), b"\n\na\n\n\nb", "a\nb\n", &[]);
}

#[test]
fn bad_lines_have_their_numbers() {
    check(
        &flow("raw", "raw"),
        b"good\n\xff\n\nab\xc3\ngood\n",
        "good\ngood\n",
        &[
            (2, "byte 1 (0xff) is not UTF-8"),
            (4, "byte 3 (0xc3) is not UTF-8"),
        ],
    );
}

#[test]
fn quoted_line_ends_and_the_header() {
    check(
        &csv(),
        b"id,text\n1,\"a\nb\"\n2,\"c\n\nd\"\n3,\n4",
        "{\"id\":\"1\",\"text\":\"a\\nb\"}\n{\"id\":\"2\",\"text\":\"c\\n\\nd\"}\n{\"id\":\"3\",\"text\":\"\"}\n",
        &[(8, "1 field, but 2 columns")],
    );
    check(&csv(), b"id,text\n", "", &[]);
    check(&csv(), b"id,text", "", &[]);
}

#[test]
fn lines_beyond_the_limit_are_skipped_and_counted() {
    let limit = FormatOptions::new().set("line_size_max", "8");
    let flow = Flow::new(
        InputFormat::new("raw", &limit).unwrap(),
        OutputFormat::new("raw", &FormatOptions::new()).unwrap(),
    );
    check(
        &flow,
        b"12345678\n123456789\nb\r\n12345678\r\n123456789\r\nthis line is far too long\nc\nthe last one as well",
        "12345678\nb\n12345678\nc\n",
        &[
            (2, "longer than 8 bytes"),
            (5, "longer than 8 bytes"),
            (6, "longer than 8 bytes"),
            (8, "longer than 8 bytes"),
        ],
    );
}

#[test]
fn a_header_that_never_ends_is_an_error() {
    let limit = FormatOptions::new().set("line_size_max", "8");
    let flow = Flow::new(
        InputFormat::new("csv", &limit).unwrap(),
        OutputFormat::new("json", &FormatOptions::new()).unwrap(),
    );
    let source = Source::new().with_reader("input", &b"a,b,c,d,e,f,g,h,i\n1\n"[..]);
    let error = run(&flow, source, options(4)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`input`: the header is longer than 8 bytes; is this the format?"
    );
    let source = Source::new().with_reader("input", &b"a,a\n1,2\n"[..]);
    let error = run(&csv(), source, options(4)).unwrap_err();
    assert!(error.to_string().starts_with("`input`: "), "{error}");
}

#[test]
fn a_byte_order_mark_hides_no_quote() {
    let text = "\u{feff}\"a\nb\",c\n1,2\n";
    for block_size in [3, 5, 1 << 10] {
        let source = Source::new().with_reader("table", std::io::Cursor::new(text));
        let (out, summary) = run(&flow("csv", "json"), source, options(block_size)).unwrap();
        assert_eq!(out, "{\"a\\nb\":\"1\",\"c\":\"2\"}\n");
        assert_eq!(summary.rejects.count(), 0);
    }
}
