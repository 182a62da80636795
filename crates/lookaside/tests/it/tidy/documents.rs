//! The pages of `docs/` and the links between them.

use std::collections::BTreeSet;

use super::{assert_none, root, tracked_texts};

/// `README.md`, `CONTRIBUTING.md` and the pages of `docs/`.
fn documents() -> Vec<(String, String)> {
    let mut texts = tracked_texts();
    texts.retain(|(name, _)| {
        let name = name.strip_prefix("docs/").unwrap_or(name);
        name.ends_with(".md") && !name.contains('/')
    });
    texts
}

/// The relative links of a page, with the numbers of their lines.
fn links(page: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (number, line) in lines_of_text(page) {
        for (start, _) in line.match_indices("](") {
            let (link, _) = line[start + 2..].split_once(')').expect("a link ends");
            if !link.contains("://") {
                links.push((number, link));
            }
        }
    }
    links
}

/// The lines outside of code blocks, with their numbers.
fn lines_of_text(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(page.lines()).filter(move |(_, line)| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code
    })
}

/// The anchors of a page, as GitHub and mdBook make them of headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = lines_of_text(page).filter(|(_, line)| line.starts_with('#'));
    let anchor = |(_, heading): (usize, &str)| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |char: &char| char.is_alphanumeric() || "-_ ".contains(*char);
        heading
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn the_summary_lists_every_page() {
    let documents = documents();
    let text_of = |wanted: &str| documents.iter().find(|(name, _)| name == wanted);
    let (_, summary) = text_of("docs/SUMMARY.md").expect("there is a summary");
    let listed: Vec<&str> = links(summary).into_iter().map(|(_, link)| link).collect();
    let pages = documents
        .iter()
        .filter_map(|(name, _)| name.strip_prefix("docs/"))
        .filter(|page| *page != "SUMMARY.md");
    let mut found = Vec::new();
    for page in pages {
        let count = listed.iter().filter(|link| **link == page).count();
        if count != 1 {
            found.push(format!("docs/{page} is listed {count} times"));
        }
    }
    assert!(listed.len() > 5, "the summary lost its pages");
    assert_none(found, "a page that docs/SUMMARY.md does not list once");
}

#[test]
fn links_of_documents_lead_somewhere() {
    let documents = documents();
    let mut found = Vec::new();
    let mut link_count = 0;
    for (name, text) in &documents {
        let folder = if name.starts_with("docs/") {
            "docs"
        } else {
            ""
        };
        for (line_number, link) in links(text) {
            link_count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let page = match path {
                "" => name.clone(),
                _ => format!("{folder}/{path}")
                    .trim_start_matches('/')
                    .to_owned(),
            };
            let target = documents.iter().find(|(name, _)| *name == page);
            let is_there = root().join(&page).exists();
            let has_anchor =
                anchor.is_empty() || target.is_some_and(|(_, text)| anchors(text).contains(anchor));
            // mdBook replaces the suffix of each page, also of those that it does not have.
            let is_on_site = folder != "docs"
                || !page.ends_with(".md")
                || (!path.starts_with("..") && page != "docs/SUMMARY.md");
            if !(is_there && has_anchor && is_on_site) {
                found.push(format!("{name}:{line_number}: {link}"));
            }
        }
    }
    assert!(link_count > 50, "the documents lost their links");
    assert_none(found, "a link without a target in the tree or on the site");
}

/// The one reason to leave a block of Rust out of the doctests is that its file is compiled:
/// `code_in_the_documents_is_that_of_its_file` compares the two.
#[test]
fn ignored_code_in_the_documents_is_that_of_a_file() {
    let mut found = Vec::new();
    for (name, text) in documents() {
        let mut before = "";
        for (index, line) in text.lines().enumerate() {
            let is_of_file = before.starts_with("<!-- examples/");
            if line.starts_with("```rust") && line.contains("ignore") && !is_of_file {
                found.push(format!("{name}:{}", index + 1));
            }
            before = line;
        }
    }
    assert_none(found, "an ignored block of Rust that no test compiles");
}

/// The guide to tests shows parts of the projects that `examples/tests/run` runs.
#[test]
fn code_in_the_guide_to_tests_is_that_of_the_examples() {
    let mut texts = tracked_texts();
    texts.retain(|(name, _)| name.starts_with("examples/tests/") || name == "docs/TESTING.md");
    let guide = texts.iter().find(|(name, _)| name == "docs/TESTING.md");
    let (_, guide) = guide.expect("there is a guide");
    let blocks: Vec<&str> = guide.split("\n```").skip(1).step_by(2).collect();
    let mut found = Vec::new();
    for block in &blocks {
        let (language, code) = block.split_once('\n').expect("a block has a language");
        let mut examples = texts.iter().filter(|(name, _)| name != "docs/TESTING.md");
        // The body of a function is shown without its indentation.
        let is_there = examples
            .any(|(_, text)| text.contains(code) || text.replace("\n    ", "\n").contains(code));
        if !is_there {
            found.push(format!("docs/TESTING.md: {language}"));
        }
    }
    assert!(blocks.len() >= 4, "the guide lost its code");
    assert_none(found, "code that is in no project of examples/tests");
}
