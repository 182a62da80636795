//! Runs the program and returns its output.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program, ready to get arguments; standard input is empty.
pub(crate) fn bench() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookaside-bench"));
    command.stdin(Stdio::null());
    command
}

/// The output of a run of the program.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        let Self { out, err, .. } = &self;
        assert_eq!(self.code, code, "stdout:\n{out}\nstderr:\n{err}");
        self
    }

    /// Asserts that standard error contains each text.
    #[track_caller]
    pub(crate) fn err_has(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.err.contains(text), "no {text:?} in:\n{}", self.err);
        }
        self
    }

    /// Asserts that standard output contains each text.
    #[track_caller]
    pub(crate) fn out_has(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.out.contains(text), "no {text:?} in:\n{}", self.out);
        }
        self
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let [out, err] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8(bytes).expect("the program writes text"));
        assert!(!err.contains("panicked at"), "the program panicked:\n{err}");
        Self {
            code: output.status.code().expect("the program ends by itself"),
            out,
            err,
        }
    }
}

/// Lines of JSON.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}
