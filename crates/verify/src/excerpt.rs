//! The operations of a key around a violation, as lines for people.

use std::fmt::{self, Write as _};

use crate::check::{Evidence, Violation};
use crate::history::{History, Presence, Read, Source, Time, Write, WriteOutcome};

/// The last operations of the violation's key that began before the end of its read, in the order of
/// their begins, at most `line_count_max`: a write or a read a line. The write that the read had to
/// show is always among them. Of reads that show the same through the same layer one after the other,
/// the last one is a line.
pub fn excerpt(history: &History, violation: &Violation, line_count_max: usize) -> Vec<String> {
    let witness = violation.witness.map(|witness| witness.read);
    let end = witness.map_or(Time::from_nanos(u64::MAX), |read| read.end);
    let key = history.key(violation.key);
    let evidence = match violation.evidence {
        Evidence::Write(write) => Some(write_line(&write)),
        _ => None,
    };
    let mut lines: Vec<(Time, String)> = Vec::new();
    for write in key.writes.iter().filter(|write| write.begin <= end) {
        lines.push((write.begin, write_line(write)));
    }
    let mut last: Option<Read> = None;
    let reads = (0..key.read_count()).map(|index| key.read(index));
    for read in reads.take_while(|read| read.begin <= end) {
        let is_same = last.is_some_and(|last| {
            let what = |read: &Read| (read.version, read.layer, read.session);
            what(&last) == what(&read) && Some(last) != witness
        });
        if is_same {
            lines.pop_if(|(_, line)| line.starts_with("read"));
        }
        lines.push((read.begin, read_line(&read)));
        last = Some(read);
    }
    lines.sort_by_key(|(begin, _)| *begin);
    let mut lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let skipped = lines.len().saturating_sub(line_count_max);
    let is_skipped = |line: &String| lines[..skipped].contains(line);
    let kept = evidence.filter(is_skipped);
    lines.drain(..skipped);
    if let (Some(kept), Some(first)) = (kept, lines.first_mut()) {
        *first = kept;
    }
    lines
}

fn write_line(write: &Write) -> String {
    let mut line = "write ".to_owned();
    let end = match write.outcome {
        WriteOutcome::Acknowledged(_) => "acknowledged",
        WriteOutcome::Aborted(_) => "aborted",
        WriteOutcome::Unknown(_) => "unknown",
    };
    match write.outcome.state() {
        Some(state) => add(&mut line, format_args!("{}", state.version)),
        None => line.push_str("without a version"),
    }
    if (write.outcome.state()).is_some_and(|state| state.presence == Presence::Absent) {
        line.push_str(" (no row)");
    }
    let (begin, ended, writer) = (write.begin, write.end, write.writer);
    add(
        &mut line,
        format_args!(", {end}, {begin} to {ended}, writer {writer}"),
    );
    line
}

fn read_line(read: &Read) -> String {
    let mut line = "read  ".to_owned();
    match read.version {
        Some(version) => add(&mut line, format_args!("{version}")),
        None => line.push_str("no row"),
    }
    let source = match read.source {
        Source::Memory => "from memory",
        Source::Database => "from the database",
    };
    let (layer, begin, end, session) = (read.layer, read.begin, read.end, read.session.0);
    add(
        &mut line,
        format_args!(", {source}, through {layer}, {begin} to {end}, session {session}"),
    );
    line
}

fn add(line: &mut String, text: fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a string takes any text");
}
