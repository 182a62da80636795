//! The program's arguments, with help texts that only clap wraps, to the width of the terminal.

use clap::{Command, CommandFactory as _};

use super::{Arguments, kinds};

/// The whole command line.
pub(crate) fn command() -> Command {
    unbroken(kinds::describe(Arguments::command()))
}

/// Removes the line breaks within paragraphs of a command and its subcommands.
fn unbroken(mut command: Command) -> Command {
    if let Some(text) = command
        .get_long_about()
        .map(|text| joined(&text.to_string()))
    {
        command = command.long_about(text);
    }
    if let Some(text) = command
        .get_after_help()
        .map(|text| joined(&text.to_string()))
    {
        command = command.after_help(text);
    }
    let after = command.get_after_long_help();
    if let Some(text) = after.map(|text| joined(&text.to_string())) {
        command = command.after_long_help(text);
    }
    command.mut_subcommands(unbroken)
}

/// Joins each paragraph into one line. Indented lines, such as examples, are kept.
fn joined(text: &str) -> String {
    let is_plain = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut joined = String::new();
    let mut before = "";
    for line in text.lines() {
        if !joined.is_empty() || !before.is_empty() {
            joined.push(match is_plain(before) && is_plain(line) {
                true => ' ',
                false => '\n',
            });
        }
        joined.push_str(line);
        before = line;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 80;

    #[test]
    fn paragraphs_become_lines() {
        for (text, expected) in [
            ("", ""),
            ("a\nb\n\nc", "a b\n\nc"),
            ("Examples:\n  a\n  b\nc\nd", "Examples:\n  a\n  b\nc d"),
        ] {
            assert_eq!(joined(text), expected);
        }
    }

    #[test]
    fn no_paragraph_of_the_help_is_wrapped_twice() {
        fn check(mut command: Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let mut wrapped = command.clone().term_width(WIDTH);
            let help = wrapped.render_long_help().to_string();
            let lines: Vec<&str> = help.lines().collect();
            for pair in lines.windows(2) {
                let indent = |line: &str| line.len() - line.trim_start().len();
                // A paragraph is at the margin or below an option.
                let is_text = indent(pair[0]) == indent(pair[1])
                    && matches!(indent(pair[0]), 0 | 10)
                    && pair.iter().all(|line| {
                        let line = line.trim_start();
                        !line.is_empty() && !line.starts_with(['[', '-'])
                    });
                assert!(
                    !is_text || pair[0].chars().count() >= WIDTH / 2,
                    "{path}: {:?} goes on with {:?}",
                    pair[0],
                    pair[1]
                );
            }
            for subcommand in command.get_subcommands_mut() {
                check(subcommand.clone(), &path);
            }
        }
        check(command(), "");
    }
}
