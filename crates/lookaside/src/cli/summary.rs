//! The summary of a run, on standard error.

use std::fmt::Write as _;
use std::time::Duration;

use lookaside_knowledge::{Counts, FeedStatus, ProviderStatus};
use lookaside_stream::{End, Reject, Rejects, Summary};

use crate::cli::output::printable;
use crate::models::routes::{Unmatched, UnmatchedFigures};
use crate::models::transform::{LookupFigures, ModelFigures};
use crate::models::waiting::OutageFigures;
use crate::numbers::grouped;

/// The figures for the summary of a run.
pub(crate) struct RunFigures<'a> {
    pub(crate) summary: &'a Summary,
    /// The events that were written to each named output.
    pub(crate) named_events_out: Vec<(String, u64)>,
    /// The events that were not assigned, if outputs have conditions or events select their models.
    pub(crate) unmatched: Option<UnmatchedFigures<'a>>,
    /// The counts of queries during the run.
    pub(crate) counts: Counts,
    /// The age of the oldest stale answer.
    pub(crate) stale_age_max: Duration,
    pub(crate) lookups: LookupFigures,
    /// The values that functions of times could not use.
    pub(crate) time_failures: u64,
    /// What lookups waited for.
    pub(crate) outages: OutageFigures,
    pub(crate) providers: Vec<ProviderStatus>,
    pub(crate) worker_count: usize,
    /// The models that ran; at least one.
    pub(crate) models: Vec<ModelFigures>,
}

/// The lines that a run ends with.
pub(crate) fn describe(figures: &RunFigures<'_>) -> String {
    let mut text = String::new();
    write(figures, &mut text).expect("a string takes any text");
    text
}

fn write(figures: &RunFigures<'_>, out: &mut String) -> std::fmt::Result {
    let summary = figures.summary;
    let events = summary.events_in;
    write!(
        out,
        "{} in {}",
        count(events, "event"),
        seconds(summary.elapsed)
    )?;
    if events > 0 {
        let rate = events as f64 / summary.elapsed.as_secs_f64().max(1e-9);
        let cpu = summary.cpu.as_secs_f64() * 1e6 / events as f64;
        let workers = count(figures.worker_count as u64, "worker");
        let models = match &figures.models[..] {
            [model] => format!("model {}", model.name),
            models => count(models.len() as u64, "model"),
        };
        write!(
            out,
            ", {} events/s, {cpu:.2} us CPU per event, {workers}, {models}",
            grouped(rate as u64),
        )?;
    }
    match summary.end {
        End::Whole => writeln!(out)?,
        End::Limit => writeln!(out, "; ended by --limit")?,
        End::Stopped => writeln!(out, "; stopped before the end of the input")?,
        End::Failed => writeln!(out, "; failed before the end of the input")?,
        End::BrokenPipe => writeln!(out, "; the reader closed the output early")?,
    }
    write!(out, "  read {}", size(summary.bytes_in))?;
    if summary.rejects.count() > 0 {
        write!(out, " with the rejected lines")?;
    }
    write!(out, ", wrote {}", size(summary.bytes_out))?;
    if summary.events_out != events - summary.rejects.count().min(events) {
        write!(out, " in {}", count(summary.events_out, "event"))?;
    }
    if summary.events_dropped > 0 {
        write!(out, ", dropped {}", count(summary.events_dropped, "event"))?;
    }
    writeln!(out)?;
    for (name, events_out) in &figures.named_events_out {
        writeln!(out, "  of these, {} to {name}", count(*events_out, "event"))?;
    }
    write_models(figures, out)?;
    if summary.is_undelivered {
        writeln!(
            out,
            "  not all of these were delivered: the run ended before the output confirmed them"
        )?;
    }
    write_losses(summary, out)?;
    for part in &summary.parts {
        writeln!(out, "  the output written so far is in {}", part.display())?;
    }
    write_lookups(figures, out)?;
    if figures.time_failures > 0 {
        writeln!(
            out,
            "  values that functions of times ignored, as they are not times: {}",
            grouped(figures.time_failures),
        )?;
    }
    for provider in &figures.providers {
        if let Some(feed) = &provider.feed {
            write_feed(&provider.name, feed, out)?;
        }
    }
    write_rejects("rejects", &summary.rejects, out)?;
    write_rejects("failed lookups", &summary.failures, out)?;
    // Elements of a split event can be rejected one by one, which says nothing about the input.
    let unmatched = figures.unmatched.as_ref();
    let was_read = unmatched.is_some_and(|it| it.without_model + it.without_output > 0);
    if events > 0 && summary.rejects.count() == events && summary.events_out == 0 && !was_read {
        writeln!(
            out,
            "  hint: all of the input was rejected; is this the format of the input (--format)?"
        )?;
    }
    Ok(())
}

/// Writes the events of each model, if there are several, and those that were not assigned.
fn write_models(figures: &RunFigures<'_>, out: &mut String) -> std::fmt::Result {
    if figures.models.len() > 1 {
        for model in &figures.models {
            write!(
                out,
                "  model {}: {}",
                model.name,
                count(model.events, "event")
            )?;
            match model.dropped {
                0 => writeln!(out)?,
                dropped => writeln!(out, ", dropped {}", grouped(dropped))?,
            }
        }
    }
    let Some(unmatched) = &figures.unmatched else {
        return Ok(());
    };
    let fate = match unmatched.unmatched {
        Unmatched::Pass => "passed".to_owned(),
        Unmatched::Reject => "rejected".to_owned(),
        Unmatched::Output(name) => format!("to {name}"),
    };
    for (number, reason) in [
        (unmatched.without_model, "no model has a rule for"),
        (unmatched.without_output, "no output has a condition for"),
    ] {
        if number > 0 {
            writeln!(
                out,
                "  unmatched: {} that {reason}, {fate}",
                count(number, "event")
            )?;
        }
    }
    Ok(())
}

/// Writes what may have been sent twice or lost.
fn write_losses(summary: &Summary, out: &mut String) -> std::fmt::Result {
    if summary.rejects_refused > 0 {
        let rejects = count(summary.rejects_refused, "reject");
        writeln!(
            out,
            "  {rejects} not written: refused by the broker of --reject"
        )?;
    }
    let reconnects = &summary.reconnects;
    if reconnects.count > 0 {
        writeln!(
            out,
            "  lost the connection {}: sent {} ({}) again, up to {} before them may be lost",
            count(reconnects.count, "time"),
            count(reconnects.replayed_lines, "line"),
            size(reconnects.replayed_bytes),
            size(reconnects.lost_bytes_max),
        )?;
    }
    if summary.truncations > 0 {
        writeln!(
            out,
            "  the followed file was truncated or lost {}: at least {} were not read",
            count(summary.truncations, "time"),
            size(summary.bytes_unread),
        )?;
    }
    if summary.datagrams_lost > 0 {
        writeln!(
            out,
            "  lost {} that the system discarded because {} not read in time",
            count(summary.datagrams_lost, "datagram"),
            if summary.datagrams_lost == 1 {
                "it was"
            } else {
                "they were"
            },
        )?;
    }
    Ok(())
}

fn write_lookups(figures: &RunFigures<'_>, out: &mut String) -> std::fmt::Result {
    let LookupFigures {
        wanted,
        asked,
        absent,
    } = figures.lookups;
    if wanted == 0 {
        return Ok(());
    }
    let counts = &figures.counts;
    writeln!(
        out,
        "  {}, {} without a row; executed {}: native {}, L0 {}, L1 {}, database {}",
        count(wanted, "lookup"),
        grouped(absent),
        grouped(asked),
        grouped(counts.native_hits + counts.native_absent),
        grouped(counts.l0_hits),
        grouped(counts.l1_hits),
        grouped(counts.queries),
    )?;
    if counts.stale_answers > 0 {
        writeln!(
            out,
            "  stale answers, because a provider did not answer: {}, the oldest {} old",
            grouped(counts.stale_answers),
            seconds(figures.stale_age_max)
        )?;
    }
    let OutageFigures {
        count: waits,
        elapsed,
        ..
    } = figures.outages;
    if waits > 0 {
        writeln!(
            out,
            "  waited for unavailable databases: {}, {}",
            count(waits, "time"),
            seconds(elapsed)
        )?;
    }
    Ok(())
}

/// Writes what the change feed of a provider did.
fn write_feed(provider: &str, feed: &FeedStatus, out: &mut String) -> std::fmt::Result {
    write!(
        out,
        "  change feed of {provider}: {}, {}, {}",
        feed.state,
        count(feed.statement_count, "statement"),
        count(feed.transaction_count, "transaction"),
    )?;
    if let Some(lag) = feed.lag {
        write!(out, ", lag {}", seconds(lag))?;
    }
    if feed.reset_count > 0 {
        let resets = feed.resets().filter(|(_, count)| *count > 0);
        let resets: Vec<String> = resets
            .map(|(reason, count)| format!("{reason} {}", grouped(count)))
            .collect();
        write!(out, "; all answers invalidated: {}", resets.join(", "))?;
    }
    if let Some(reason) = &feed.reason {
        write!(out, "; {reason}")?;
    }
    writeln!(out)
}

/// Writes the number of rejects and the first of them.
fn write_rejects(what: &str, rejects: &Rejects, out: &mut String) -> std::fmt::Result {
    writeln!(out, "  {what}: {}", grouped(rejects.count()))?;
    for Reject {
        source,
        line,
        reason,
        excerpt,
    } in rejects.first()
    {
        write!(out, "    {source}:{line}: {reason}")?;
        if excerpt.is_empty() {
            writeln!(out)?;
        } else {
            writeln!(out, ": {}", printable(excerpt))?;
        }
    }
    let shown = rejects.first().len() as u64;
    if rejects.count() > shown && shown > 0 {
        writeln!(out, "    and {} more", grouped(rejects.count() - shown))?;
    }
    Ok(())
}

/// `1 event`, `5,000 events`.
fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

fn seconds(duration: Duration) -> String {
    format!("{:.3} s", duration.as_secs_f64())
}

/// Bytes with three digits, as `1.00 MB`; a kB is 1000 bytes.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return count(bytes, "byte");
    }
    let mut scaled = bytes as f64 / 1000.0;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    let decimals = 2_usize.saturating_sub(scaled.log10().max(0.0) as usize);
    format!("{scaled:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (999_999, "1.00 MB"),
            (1_229_806, "1.23 MB"),
            (123_000_000_000, "123 GB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
