//! The lines that a person types: with line editing and a history at a terminal, else as they come.

use std::env;
use std::fs::DirBuilder;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use crate::cli::output::write_stdout;
use crate::failure::Failure;

/// Entries that the history keeps, which are statements and commands. With more, the oldest are left
/// out; psql keeps 500.
const HISTORY_COUNT_MAX: usize = 1_000;

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C: what was typed is given up.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

/// Reads lines from standard input.
pub(super) struct LineReader {
    /// If both standard input and output are a terminal.
    editor: Option<LineEditor>,
}

struct LineEditor {
    editor: Editor<(), FileHistory>,
    history_path: Option<PathBuf>,
}

impl LineReader {
    pub(super) fn new() -> Result<Self, Failure> {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let editor = is_terminal.then(|| LineEditor::new(history_path()));
        Ok(Self {
            editor: editor.transpose()?,
        })
    }

    /// Shows `prompt` and waits for a line.
    pub(super) fn read(&mut self, prompt: &str) -> Result<Line, Failure> {
        match &mut self.editor {
            Some(editor) => editor.read(prompt),
            None => read_plain(prompt),
        }
    }

    /// Adds a statement or a command, of one or more lines, to the history.
    pub(super) fn remember(&mut self, entry: &str) {
        if let Some(editor) = &mut self.editor
            && !entry.is_empty()
        {
            editor.remember(entry);
        }
    }
}

impl LineEditor {
    fn new(history_path: Option<PathBuf>) -> Result<Self, Failure> {
        let config = Config::builder().history_ignore_space(true);
        let config = config.max_history_size(HISTORY_COUNT_MAX);
        let editor = config.and_then(|config| {
            let config = config.build();
            Editor::with_history(config.clone(), FileHistory::with_config(&config))
        });
        let mut editor = editor.map_err(no_terminal)?;
        if let Some(path) = &history_path {
            // There is none the first time, and without one the shell is as useful.
            let _ = editor.load_history(path);
        }
        Ok(Self {
            editor,
            history_path,
        })
    }

    fn read(&mut self, prompt: &str) -> Result<Line, Failure> {
        match self.editor.readline(prompt) {
            Ok(text) => Ok(Line::Text(text)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(no_terminal(error)),
        }
    }

    /// The file is written at once, so that a shell that is killed loses nothing, and shells that run
    /// at the same time add to it.
    fn remember(&mut self, entry: &str) {
        // A history that cannot be kept is no reason to end the shell.
        let is_added = self.editor.add_history_entry(entry).unwrap_or(false);
        if let Some(path) = self.history_path.as_deref().filter(|_| is_added) {
            let _ = make_folder(path);
            // Only its owner can read the file, which `FileHistory` sees to.
            let _ = self.editor.append_history(path);
        }
    }
}

/// A line without editing, as where the output goes into a file.
fn read_plain(prompt: &str) -> Result<Line, Failure> {
    write_stdout(|out| write!(out, "{prompt}"))?;
    let mut line = String::new();
    let size = io::stdin().read_line(&mut line);
    if size.map_err(no_input)? > 0 {
        return Ok(Line::Text(line));
    }
    // The line of the prompt is still open.
    write_stdout(|out| writeln!(out))?;
    Ok(Line::End)
}

pub(super) fn no_input(error: io::Error) -> Failure {
    Failure::new("cannot read standard input").because(&error)
}

fn no_terminal(error: ReadlineError) -> Failure {
    Failure::new("cannot read from the terminal").because(&error)
}

/// The file in the folder for what programs keep about their use, after the XDG specification, which
/// says to ignore a relative path.
fn history_path() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = env::var_os("XDG_STATE_HOME").and_then(|state| absolute(state.into()));
    let home = || env::home_dir().and_then(absolute);
    let state = state.or_else(|| Some(home()?.join(".local/state")))?;
    Some(state.join("lookaside/pg_shell_history"))
}

/// Makes the folder of a file, for its owner alone.
fn make_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
