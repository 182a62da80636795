//! `lookaside fmt`: formats models.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use lookaside_knowledge::CONFIG_FILE;
use lookaside_oml::{MODEL_SIZE_MAX, format as formatted};

use crate::cli::output::{check_stdin, printable, write_stdout};
use crate::failure::{CommandResult, Exit, Failure};
use crate::models::{draw, files_below};
use crate::project::MODELS;

/// Format models
#[derive(Debug, Args)]
#[command(
    long_about = "\
Format models

Writes each statement, and each item of a long block, on a separate line, with one blank around
operators. Long lines are broken, SQL before its clauses. Only blanks and line breaks change: comments,
names and the letter case of SQL stay, and a model whose meaning would change is refused. Files are
replaced only if they change; their paths are printed.",
    after_help = "\
Examples:
  lookaside fmt my-project
  lookaside fmt --check examples
  lookaside fmt - <models/events.oml"
)]
pub(crate) struct FmtArguments {
    /// Model files, projects, and folders whose *.oml are formatted; `-` formats standard input to
    /// standard output [default: the models of the project in the current folder]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Change nothing; print the first difference of each file that would change, with exit code 1
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &FmtArguments) -> CommandResult {
    let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
    match &arguments.paths[..] {
        [path] if is_stdin(path) => return format_stdin(arguments.check),
        paths if paths.iter().any(is_stdin) => {
            return Err(Failure::usage("`-` cannot be combined with other paths")
                .with_help("format standard input and files by separate commands"));
        }
        _ => {}
    }
    let mut is_sound = true;
    let mut files = Vec::new();
    for found in models_of(&arguments.paths) {
        match found {
            Ok(found) => files.extend(found),
            Err(failure) => is_sound &= report(&failure),
        }
    }
    let mut seen = HashSet::new();
    for file in files {
        let outcome = Model::read(&file).and_then(|model| {
            // A file is formatted once, even if several paths lead to it.
            if !seen.insert(model.target.clone()) {
                return Ok(true);
            }
            model.format(arguments.check)
        });
        match outcome {
            Ok(is_formatted) => is_sound &= is_formatted,
            Err(failure) => is_sound &= report(&failure),
        }
    }
    Ok(if is_sound { Exit::Done } else { Exit::Failed })
}

/// Prints a failure after which the next file is formatted; false, as the command has failed.
fn report(failure: &Failure) -> bool {
    // A failure to write to standard error is ignored.
    let _ = failure.write(&mut io::stderr().lock());
    false
}

/// The model files of each path.
fn models_of(paths: &[PathBuf]) -> Vec<Result<Vec<PathBuf>, Failure>> {
    if !paths.is_empty() {
        return paths.iter().map(|path| models_at(path)).collect();
    }
    let current = Path::new(CONFIG_FILE);
    if !current.exists() {
        let failure = Failure::new(format!("there is no {CONFIG_FILE} in the current folder"));
        return vec![Err(
            failure.with_help("name the project, or the files or folders to format")
        )];
    }
    vec![models_below(Path::new(MODELS))]
}

/// The models of a project or a folder, or the file itself.
fn models_at(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = fs::metadata(path).map_err(|error| cannot("read", path, &error))?;
    if found.is_dir() && path.join(CONFIG_FILE).exists() {
        return models_below(&path.join(MODELS));
    }
    if found.is_dir() {
        return models_below(path);
    }
    if path.ends_with(CONFIG_FILE) {
        return models_below(&path.with_file_name(MODELS));
    }
    match found.is_file() {
        true => Ok(vec![path.to_owned()]),
        false => Err(Failure::new(format!("{} is not a file", path.display()))
            .with_help("pass its content to `lookaside fmt -`")),
    }
}

fn models_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let files = files_below(folder, ".oml")?;
    match files.is_empty() {
        true => Err(Failure::new(format!(
            "{} contains no models",
            folder.display()
        ))),
        false => Ok(files),
    }
}

/// Formats standard input.
fn format_stdin(check: bool) -> CommandResult {
    const NAME: &str = "standard input";
    check_stdin()?;
    let text = text_of(io::stdin().lock())
        .map_err(|error| Failure::new(format!("cannot read {NAME}")).because(&error))?;
    let after = format_text(NAME, &text)?;
    if !check {
        write_stdout(|out| out.write_all(after.as_bytes()))?;
    } else if let Some(difference) = first_difference(&text, &after) {
        write_stdout(|out| write!(out, "{NAME}:{difference}"))?;
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

/// A model and its file.
struct Model {
    /// The path in messages.
    path: PathBuf,
    /// The file, to which `path` may be a symbolic link.
    target: PathBuf,
    text: String,
}

impl Model {
    fn read(path: &Path) -> Result<Self, Failure> {
        let read = || -> io::Result<Self> {
            Ok(Self {
                path: path.to_owned(),
                target: fs::canonicalize(path)?,
                text: text_of(File::open(path)?)?,
            })
        };
        read().map_err(|error| cannot("read", path, &error))
    }

    /// Formats the file, or only compares it; whether it is formatted afterwards.
    fn format(&self, check: bool) -> Result<bool, Failure> {
        let path = self.path.display();
        let after = format_text(&path.to_string(), &self.text)?;
        let Some(difference) = first_difference(&self.text, &after) else {
            return Ok(true);
        };
        if check {
            write_stdout(|out| write!(out, "{path}:{difference}"))?;
            return Ok(false);
        }
        replace(&self.target, &after).map_err(|error| cannot("write", &self.path, &error))?;
        write_stdout(|out| writeln!(out, "formatted {path}"))?;
        Ok(true)
    }
}

fn cannot(action: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {action} {}", path.display())).because(error)
}

/// The text of a file, which is not read beyond the size of a model.
fn text_of(file: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MODEL_SIZE_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > MODEL_SIZE_MAX {
        let message = format!("a model has at most {MODEL_SIZE_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes()[..error.utf8_error().valid_up_to()].iter();
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("line {line} is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

fn format_text(name: &str, text: &str) -> Result<String, Failure> {
    formatted(name, text).map_err(|faults| {
        Failure::new(format!("{name} cannot be formatted")).with_excerpt(draw(&faults))
    })
}

/// Replaces a file at once, so that no reader sees a part of it. It keeps its permissions.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // A file that may not be written to is not replaced either.
    let old = OpenOptions::new().write(true).open(file)?;
    let permissions = old.metadata()?.permissions();
    let folder = file.parent().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut new = tempfile::Builder::new()
        .prefix(".lookaside-fmt-")
        .tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(permissions)?;
    new.persist(file)?;
    Ok(())
}

/// The number of the first line that differs, and that line in both texts; `None` if they are equal.
fn first_difference(before: &str, after: &str) -> Option<String> {
    let (mut old, mut new) = (before.split_inclusive('\n'), after.split_inclusive('\n'));
    for number in 1.. {
        let lines = (old.next(), new.next());
        match lines {
            (None, None) => return None,
            (old, new) if old == new => {}
            (old, new) => {
                let lines = [("-", old), ("+", new)];
                let lines = lines.map(|(sign, line)| line_of_difference(sign, line));
                return Some(format!("{number}: not formatted\n{}", lines.concat()));
            }
        }
    }
    None
}

/// A line of one of the texts, if it has that line.
fn line_of_difference(sign: &str, line: Option<&str>) -> String {
    match line.map(|line| (line, line.strip_suffix('\n'))) {
        None => String::new(),
        Some((_, Some(line))) => format!("  {sign} {}\n", printable(line)),
        Some((line, None)) => format!("  {sign} {} (no line break)\n", printable(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_that_of_the_first_line() {
        for (before, after, expected) in [
            ("a\nb\n", "a\nb\n", None),
            (
                "a\nb\nc\n",
                "a\n b\nd\n",
                Some("2: not formatted\n  - b\n  +  b\n"),
            ),
            ("a\r\n", "a\n", Some("1: not formatted\n  - a\\r\n  + a\n")),
            (
                "a",
                "a\n",
                Some("1: not formatted\n  - a (no line break)\n  + a\n"),
            ),
            ("a\n\n", "a\n", Some("2: not formatted\n  - \n")),
            ("a\n", "a\nb\n", Some("2: not formatted\n  + b\n")),
        ] {
            assert_eq!(first_difference(before, after).as_deref(), expected);
        }
    }
}
