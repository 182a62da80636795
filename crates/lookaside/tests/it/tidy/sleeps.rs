//! Tests wait for conditions. A call of `sleep` in the code of tests has its reason in a comment, on its
//! line or directly above: `// sleep: the time to live has to pass`.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::layers::{attributes, is_for_tests};
use super::{assert_none, tracked_texts};

const MARK: &str = "// sleep: ";

/// The lines of a file, from 1 on, that call `sleep` without a reason.
fn unexplained_sleeps(text: &str, is_test_file: bool) -> syn::Result<Vec<usize>> {
    let file = syn::parse_file(text)?;
    let mut items = TestItems::default();
    items.visit_file(&file);
    let mut calls = Vec::new();
    find_calls(text.parse()?, &mut calls);
    calls.retain(|number| {
        let is_test = is_test_file || items.0.iter().any(|lines| lines.contains(number));
        is_test && !has_reason(text, *number)
    });
    Ok(calls)
}

/// The lines of the items that are compiled for tests only.
#[derive(Default)]
struct TestItems(Vec<RangeInclusive<usize>>);

impl Visit<'_> for TestItems {
    fn visit_item(&mut self, item: &syn::Item) {
        if is_for_tests(attributes(item)) {
            let span = item.span();
            self.0.push(span.start().line..=span.end().line);
        } else {
            visit::visit_item(self, item);
        }
    }
}

/// Adds the line of each call of a function `sleep`, by whatever path. Strings, such as those with SQL,
/// are single tokens; methods and definitions are not meant.
fn find_calls(tokens: TokenStream, calls: &mut Vec<usize>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => find_calls(group.stream(), calls),
            TokenTree::Ident(ident) if ident == "sleep" => {
                let is_called = tokens.get(index + 1).is_some_and(|next| {
                    matches!(next, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis)
                });
                let is_other = tokens[..index].last().is_some_and(|last| match last {
                    TokenTree::Punct(punct) => punct.as_char() == '.',
                    TokenTree::Ident(ident) => ident == "fn",
                    _ => false,
                });
                if is_called && !is_other {
                    calls.push(ident.span().start().line);
                }
            }
            _ => {}
        }
    }
}

/// Whether a line, or the comment that ends above it, has the mark and a text behind it.
fn has_reason(text: &str, number: usize) -> bool {
    let lines: Vec<_> = text.lines().take(number).collect();
    let is_reason = |line: &str| {
        let reason = line.split_once(MARK).map(|(_, reason)| reason.trim());
        reason.is_some_and(|reason| !reason.is_empty())
    };
    let (last, above) = lines.split_last().expect("lines count from 1");
    let mut comment = above
        .iter()
        .rev()
        .map(|line| line.trim_start())
        .take_while(|line| line.starts_with("//"));
    is_reason(last) || comment.any(is_reason)
}

/// Whether all of a file is the code of tests.
fn is_test_file(name: &str) -> bool {
    let mut folders = name.split('/');
    name.starts_with("crates/testing/") || folders.any(|it| it == "tests" || it == "tests.rs")
}

#[test]
fn sleeps_in_tests_have_a_reason() {
    let mut found = Vec::new();
    let mut reason_count = 0;
    for (name, text) in tracked_texts() {
        if !name.starts_with("crates/") || !name.ends_with(".rs") || !text.contains("sleep") {
            continue;
        }
        reason_count += text.matches(MARK).count();
        let lines = unexplained_sleeps(&text, is_test_file(&name));
        let lines = lines.unwrap_or_else(|error| panic!("{name}: {error}"));
        found.extend(lines.iter().map(|number| format!("{name}:{number}")));
    }
    assert!(reason_count > 10, "the mark is not the one that is used");
    assert_none(
        found,
        "a sleep in a test: wait with `lookaside_testing::wait_until`, or say why with `// sleep: `",
    );
}

#[test]
fn calls_are_found_wherever_they_are() {
    for (text, expected) in [
        ("fn f() { thread::sleep(A); }", &[1][..]),
        (
            "fn f() {\n    tokio::time::sleep(A).await;\n    sleep(A);\n}",
            &[2, 3],
        ),
        ("fn f() {\n    assert!(\n        sleep(A)\n    );\n}", &[3]),
        (
            "fn f() { q(\"select sleep(6)\"); self.sleep(); }\nfn sleep() {}",
            &[],
        ),
        (
            "fn f() {\n    // sleep: A has to pass\n    sleep(A);\n}",
            &[],
        ),
        (
            "fn f() {\n    // sleep: A has\n    // to pass\n    sleep(A);\n}",
            &[],
        ),
        ("fn f() {\n    sleep(A); // sleep: A has to pass\n}", &[]),
        ("fn f() {\n    // sleep: \n    sleep(A);\n}", &[3]),
        (
            "fn f() {\n    // sleep: not this one\n    g();\n    sleep(A);\n}",
            &[4],
        ),
    ] {
        assert_eq!(unexplained_sleeps(text, true).unwrap(), expected, "{text}");
        let module = format!("fn g() {{ sleep(A); }}\n#[cfg(test)]\nmod t {{\n{text}\n}}");
        let below: Vec<_> = expected.iter().map(|number| number + 3).collect();
        assert_eq!(unexplained_sleeps(&module, false).unwrap(), below, "{text}");
    }
    assert!(is_test_file("crates/http/tests/it/life.rs"));
    assert!(is_test_file("crates/stream/src/run/tests.rs"));
    assert!(!is_test_file("crates/stream/src/run/mod.rs"));
}
