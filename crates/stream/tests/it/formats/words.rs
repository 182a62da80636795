//! `regex` and `raw`.

use super::support::{check, decode, encode, options};

#[test]
fn named_groups_are_fields() {
    let pattern = [(
        "pattern",
        r"^(?<level>\w+)(?: \[(?<pod>[^\]]*)\])?(:) (?P<msg>.*)$",
    )];
    check(
        "regex",
        &pattern,
        "WARN [web-1]: low\nINFO: é\nnothing\n",
        "1 level:text=WARN pod:text=web-1 msg:text=low\n2 level:text=INFO msg:text=é\n\
         3! does not match the pattern",
    );
}

#[test]
fn raw_lines_are_one_field() {
    check("raw", &[], "a b\r\n\n c", "1 raw:text=a b\n3 raw:text= c");
}

#[test]
fn raw_out_is_the_field_raw_or_all_values() {
    let json = lookaside_stream::InputFormat::new("json", &options(&[])).unwrap();
    let source = b"{\"a\":1,\"raw\":\"as it was\"}\n{\"a\":1.0,\"b\":null,\"c\":[1,\"x\"]}\n{}\n";
    let (batch, _) = decode(&json, source);
    assert_eq!(encode("raw", &[], &batch), "as it was\n1  [1, x]\n\n");
}
