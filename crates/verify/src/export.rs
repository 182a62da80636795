//! Histories as EDN, for checkers of other makers: an operation of one key becomes two maps, one a
//! line, as Knossos and Elle read them.
//!
//! ```text
//! {:type :invoke, :f :write, :value 2, :process 0, :time 1200}
//! {:type :ok, :f :write, :value 2, :process 0, :time 3400}
//! ```
//!
//! A state without a row is `:absent`. The first numbers of writers are below 65,536, those of sessions above. A
//! process whose write ended with `:info` gets a new number for its next operation. A write whose
//! version is not known cannot be expressed, and is a comment.

use std::collections::HashMap;
use std::io;

use crate::history::{ContractId, History, Key, Presence, Time, Version, WriteOutcome};

/// The numbers that a process gets one after the other are this far apart: there are fewer writers and
/// sessions.
const PROCESS_STEP: u64 = 1 << 17;

/// The number of session 0.
const SESSION_BASE: u64 = 1 << 16;

/// One line.
struct Line {
    time: Time,
    /// Orders the lines of a moment, see [`order`].
    rank: usize,
    kind: &'static str,
    function: &'static str,
    value: Option<Option<Version>>,
    process: u64,
}

/// Writes the operations of a key in the order of their times. Of the reads, those with one of
/// `contracts`: a linearizability checker is given [`Contract::Now`](crate::history::Contract::Now)
/// alone.
///
/// # Errors
///
/// If the output cannot be written to.
pub fn write_edn(
    history: &History,
    key: Key,
    contracts: &[ContractId],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let operations = history.key(key);
    let mut lines = Vec::new();
    for write in operations.writes {
        let process = u64::from(write.writer);
        let Some(state) = write.outcome.state() else {
            writeln!(out, "; {:?} by process {process}", write.outcome)?;
            continue;
        };
        let value = Some((state.presence == Presence::Present).then_some(state.version));
        let completion = match write.outcome {
            WriteOutcome::Acknowledged(_) => "ok",
            WriteOutcome::Aborted(_) => "fail",
            WriteOutcome::Unknown(_) => "info",
        };
        let times = [("invoke", write.begin), (completion, write.end)];
        lines.extend(times.map(|(kind, time)| Line {
            time,
            rank: 0,
            kind,
            function: "write",
            value,
            process,
        }));
    }
    for index in 0..operations.read_count() {
        let read = operations.read(index);
        if !contracts.contains(&read.contract) {
            continue;
        }
        let times = [
            ("invoke", read.begin, None),
            ("ok", read.end, Some(read.version)),
        ];
        lines.extend(times.map(|(kind, time, value)| Line {
            time,
            rank: 0,
            kind,
            function: "read",
            value,
            process: SESSION_BASE + u64::from(read.session.0),
        }));
    }
    order(&mut lines);
    write_lines(&lines, out)
}

/// Sorts lines by their times. At one moment, an invocation comes before the completions of other
/// processes, as the operations overlap, and after the completion of its own process, which has only
/// one operation at a time. The lines of a process are in their order already.
fn order(lines: &mut [Line]) {
    lines.sort_by_key(|line| line.time);
    // Invocations have even ranks, completions odd ones; each is above the one before it.
    let mut ranks: HashMap<u64, (Time, usize)> = HashMap::new();
    for line in &mut *lines {
        let is_completion = line.kind != "invoke";
        let rank = match ranks.get(&line.process) {
            Some((time, rank)) if *time == line.time => rank + 1,
            _ => 0,
        };
        line.rank = rank + usize::from(is_completion == rank.is_multiple_of(2));
        ranks.insert(line.process, (line.time, line.rank));
    }
    lines.sort_by_key(|line| (line.time, line.rank));
}

fn write_lines(lines: &[Line], out: &mut dyn io::Write) -> io::Result<()> {
    let mut info_counts: HashMap<u64, u64> = HashMap::new();
    for line in lines {
        let Line { kind, function, .. } = line;
        let info_count = info_counts.entry(line.process).or_default();
        let process = line.process + *info_count * PROCESS_STEP;
        *info_count += u64::from(*kind == "info");
        write!(out, "{{:type :{kind}, :f :{function}, :value ")?;
        match line.value {
            Some(Some(version)) => write!(out, "{}", version.0)?,
            Some(None) => out.write_all(b":absent")?,
            None => out.write_all(b"nil")?,
        }
        writeln!(out, ", :process {process}, :time {}}}", line.time.nanos())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_one_operation_before_it_begins_the_next() {
        let line = |time, kind, process| Line {
            time: Time::from_nanos(time),
            rank: 0,
            kind,
            function: "read",
            value: None,
            process,
        };
        // Process 1 has an operation from 1 to 2, one at 2, and one from 2 to 3; process 2 overlaps them.
        let mut lines = vec![
            line(1, "invoke", 1),
            line(2, "ok", 1),
            line(2, "invoke", 1),
            line(2, "ok", 1),
            line(2, "invoke", 1),
            line(3, "ok", 1),
            line(2, "invoke", 2),
            line(3, "ok", 2),
        ];
        order(&mut lines);
        let found: Vec<_> = lines.iter().map(|it| (it.kind, it.process)).collect();
        let expected = [
            ("invoke", 1),
            ("invoke", 2),
            ("ok", 1),
            ("invoke", 1),
            ("ok", 1),
            ("invoke", 1),
            ("ok", 1),
            ("ok", 2),
        ];
        assert_eq!(found, expected);
    }
    use crate::fault::{FaultPlan, PhaseId};
    use crate::history::{
        Contract, Contracts, Layer, Read, Recorder, RecorderLimits, SessionId, Source, State, Write,
    };

    #[test]
    fn operations_are_lines_in_the_order_of_time() {
        let contracts = Contracts::new([Contract::Any, Contract::Now]).unwrap();
        let now = contracts.id(Contract::Now).unwrap();
        let mut recorder = Recorder::new(RecorderLimits::default());
        for (begin, end, outcome) in [
            (1, 3, WriteOutcome::Acknowledged(State::present(1))),
            (4, 5, WriteOutcome::Aborted(Some(State::present(2)))),
            (6, 7, WriteOutcome::Unknown(Some(State::absent(2)))),
            (8, 9, WriteOutcome::Unknown(None)),
            (10, 11, WriteOutcome::Acknowledged(State::present(3))),
        ] {
            let write = Write {
                key: Key(1),
                begin: Time::from_nanos(begin),
                end: Time::from_nanos(end),
                outcome,
                position: None,
                writer: 2,
                phase: PhaseId::default(),
            };
            recorder.write(write).unwrap();
        }
        for (contract, version) in [(Contract::Any, Some(Version(1))), (Contract::Now, None)] {
            let read = Read {
                key: Key(1),
                version,
                begin: Time::from_nanos(7),
                end: Time::from_nanos(8),
                contract: contracts.id(contract).unwrap(),
                token: None,
                layer: Layer::L0,
                session: SessionId(5),
                fresh_as_of: None,
                phase: PhaseId::default(),
                source: Source::Database,
            };
            recorder.read(&read).unwrap();
        }
        let plan = FaultPlan::quiet(std::time::Duration::from_secs(1));
        let recorders = vec![recorder];
        let history = History::merge(contracts, plan, PhaseId::default(), recorders).unwrap();
        let mut text = Vec::new();
        write_edn(&history, Key(1), &[now], &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "; Unknown(None) by process 2
{:type :invoke, :f :write, :value 1, :process 2, :time 1}
{:type :ok, :f :write, :value 1, :process 2, :time 3}
{:type :invoke, :f :write, :value 2, :process 2, :time 4}
{:type :fail, :f :write, :value 2, :process 2, :time 5}
{:type :invoke, :f :write, :value :absent, :process 2, :time 6}
{:type :invoke, :f :read, :value nil, :process 65541, :time 7}
{:type :info, :f :write, :value :absent, :process 2, :time 7}
{:type :ok, :f :read, :value :absent, :process 65541, :time 8}
{:type :invoke, :f :write, :value 3, :process 131074, :time 10}
{:type :ok, :f :write, :value 3, :process 131074, :time 11}
"
        );
    }
}
