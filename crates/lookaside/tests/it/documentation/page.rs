//! The commands of a page.

/// A command with the output that the page shows for it.
#[derive(Debug, PartialEq)]
pub(super) struct Command {
    /// The command, of several lines if it has a here-document.
    pub(super) text: String,
    /// The lines behind it in a ```` ```console ```` block.
    pub(super) shown: Vec<String>,
    pub(super) line_number: usize,
    /// The byte of the page at which its block begins.
    pub(super) position: usize,
}

impl Command {
    /// Its first line without the comment.
    pub(super) fn line(&self) -> &str {
        let line = self.text.lines().next().unwrap_or_default();
        line.split(" # ").next().unwrap_or(line).trim_end()
    }
}

/// The commands of the blocks of a page: in a ```` ```console ```` block the lines that begin with
/// `$ `, each of which is followed by its output; in a ```` ```sh ```` block all lines.
pub(super) fn commands(page: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut lines = page.lines().enumerate();
    let mut position = 0;
    let mut language = None;
    while let Some((index, line)) = lines.next() {
        let start = position;
        position += line.len() + 1;
        if let Some(name) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() { None } else { Some(name) };
            let is_known = !["", "bash", "shell"].contains(&name) || language.is_none();
            assert!(
                is_known,
                "line {}: not `console`, `sh` or `text`",
                index + 1
            );
            continue;
        }
        let command = match language {
            Some("console") => match line.strip_prefix("$ ") {
                Some(command) => command,
                None => {
                    let command = commands.last_mut().expect("output follows a command");
                    command.shown.push(line.to_owned());
                    continue;
                }
            },
            Some("sh") if !line.is_empty() => line,
            _ => continue,
        };
        let mut text = command.to_owned();
        if let Some((_, word)) = command.split_once("<<'") {
            let (end, _) = word.split_once('\'').expect("the word is quoted");
            for (_, line) in lines.by_ref() {
                position += line.len() + 1;
                text = format!("{text}\n{line}");
                if line == end {
                    break;
                }
            }
        }
        commands.push(Command {
            text,
            shown: Vec::new(),
            line_number: index + 1,
            position: start,
        });
    }
    commands
}

#[test]
fn commands_have_their_lines_and_their_output() {
    let page = "# Page\n\n```console\n$ one  # first\n$ two\nout\n\nmore\n```\n\n```text\n$ no\n```\n\
                ```sh\nthree <<'END'\n$ in\nEND\nfour\n```\n";
    let found = commands(page);
    let texts: Vec<&str> = found.iter().map(|command| &*command.text).collect();
    assert_eq!(
        texts,
        ["one  # first", "two", "three <<'END'\n$ in\nEND", "four"]
    );
    assert_eq!(found[0].line(), "one");
    assert_eq!(found[1].shown, ["out", "", "more"]);
    assert_eq!((found[3].line_number, found[1].line_number), (18, 5));
    assert_eq!(&page[found[3].position..][..5], "four\n");
}
