//! The faults: what each of them does to the server, to the link, or to this process.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_value::Value;
use lookaside_verify::fault::{FaultKind, FaultPlan, Injector, PhaseId};
use rustix::process::{Pid, Signal, kill_process};

use super::Cause;
use super::pattern::{Pattern, Patterns};
use super::product::Product;
use super::registers::{FOREIGN_ID_MIN, VIEW};
use super::relay::Relay;
use super::server::{PRODUCT_NAME, Server, WRITER_NAME, int};

/// Slots and publications of the product have names that begin like this; only those of the run's own
/// database are disturbed.
const FEED_NAMES: &str = "lookaside%";

/// How long this process is stopped: long beside each contract, and short beside a run.
const STOP_LENGTH: Duration = Duration::from_secs(1);

/// The rows of one transaction that fills a feed's queue.
const QUEUE_ROW_COUNT: i64 = 20_000;

/// How long the server may take to send a large transaction.
const SEND_TIME: Duration = Duration::from_millis(50);

/// How long a feed may take to notice a definition, or to begin, and to follow the statements: it asks for
/// definitions every 250 ms.
const FOLLOW_TIME: Duration = Duration::from_millis(400);

/// Why a fault of the feed cannot be injected.
const NO_FEED: &str = "no feed: no replication slot is named lookaside…";
const NO_PUBLICATION: &str = "no feed: no publication is named lookaside…";

/// What became of the injections of a fault.
#[derive(Clone, Debug, Default)]
pub(super) struct Injections {
    /// Carried out.
    pub(super) done_count: u64,
    /// Not carried out, because of an error.
    pub(super) failed_count: u64,
    /// The first error.
    pub(super) first_failure: Option<String>,
    /// Why it cannot be injected here.
    pub(super) not_applicable: Option<&'static str>,
}

/// Whether a fault could be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Injected {
    Done,
    NotApplicable(&'static str),
}

/// What faults are injected into.
pub(super) struct Faults<'a> {
    pub(super) server: &'a Server,
    pub(super) relay: Option<&'a Relay>,
    pub(super) product: &'a Product,
    pub(super) patterns: &'a Patterns<'a>,
    pub(super) plan: &'a FaultPlan,
}

/// Why a fault is left out of `all` from the beginning; `None` if it can be tried.
pub(super) fn left_out(kind: FaultKind) -> Option<&'static str> {
    // A shell takes a stopped job for one that Ctrl-Z has stopped.
    let at_terminal = kind == FaultKind::StopProcess && io::stdin().is_terminal();
    at_terminal.then_some("at a terminal the shell would take over; use </dev/null")
}

impl Faults<'_> {
    /// Injects each fault of the plan when its phase begins, until the run is over.
    pub(super) fn run(&self, injector: &Injector<'_>) -> BTreeMap<FaultKind, Injections> {
        let mut all: BTreeMap<FaultKind, Injections> = BTreeMap::new();
        while let Some(phase) = injector.next_phase() {
            let entry = self.plan.phases()[phase.index()];
            if let Some(kind) = entry.fault {
                let length = entry.end.saturating_sub(entry.begin);
                let injections = all.entry(kind).or_default();
                match self.inject(kind, phase, length) {
                    Ok(Injected::Done) => injections.done_count += 1,
                    Ok(Injected::NotApplicable(reason)) => {
                        injections.not_applicable = Some(reason);
                    }
                    Err(cause) => {
                        injections.failed_count += 1;
                        injections
                            .first_failure
                            .get_or_insert_with(|| cause.to_string());
                    }
                }
            }
            injector.finish();
        }
        all
    }

    fn inject(&self, kind: FaultKind, phase: PhaseId, length: Duration) -> Result<Injected, Cause> {
        let hold = Hold {
            begin: Instant::now(),
            length,
        };
        if Pattern::of_fault(kind).is_some() {
            return self.inject_pattern(kind, phase, hold);
        }
        match kind {
            FaultKind::CutMessage | FaultKind::Blackhole | FaultKind::SlowAnswers => {
                self.inject_link(kind, hold)
            }
            // The reads that matter come when it is over.
            FaultKind::KillPostmaster => self.kill_postmaster().inspect(|_| thread::sleep(length)),
            FaultKind::StopProcess => stop_process().inspect(|_| thread::sleep(length)),
            FaultKind::Reload => {
                self.product.reload()?;
                hold.wait();
                Ok(Injected::Done)
            }
            FaultKind::TerminateWalsender
            | FaultKind::StopWalsender
            | FaultKind::DropSlot
            | FaultKind::AlterPublication
            | FaultKind::StalledReconnect
            | FaultKind::OverflowQueue => self.inject_feed(kind, hold),
            _ => self.inject_sql(kind, hold),
        }
    }

    /// The writers do it, each write or once a phase.
    fn inject_pattern(
        &self,
        kind: FaultKind,
        phase: PhaseId,
        hold: Hold,
    ) -> Result<Injected, Cause> {
        if kind == FaultKind::PreparedTransaction {
            let mut connection = self.server.connect()?;
            if text(&mut connection, "show max_prepared_transactions")? == "0" {
                return Ok(Injected::NotApplicable("max_prepared_transactions is 0"));
            }
        }
        // All of a transaction then arrives at once.
        let relay = self.relay.filter(|_| kind == FaultKind::BulkUpdate);
        if let Some(relay) = relay {
            relay.hold();
        }
        let is_done = self.patterns.wait_for(phase);
        if let Some(relay) = relay {
            thread::sleep(SEND_TIME);
            relay.pass();
            // The reads that matter come now, before the next one invalidates all of these rows again.
            thread::sleep(FOLLOW_TIME);
        }
        hold.wait();
        match is_done {
            true => Ok(Injected::Done),
            false => Err("no writer wrote like this".into()),
        }
    }

    fn inject_link(&self, kind: FaultKind, hold: Hold) -> Result<Injected, Cause> {
        let relay = self.relay.ok_or("there is no relay")?;
        let count = match kind {
            FaultKind::Blackhole | FaultKind::SlowAnswers => {
                let count = match kind {
                    FaultKind::Blackhole => relay.hold(),
                    _ => relay.slow(),
                };
                hold.wait();
                count
            }
            _ => {
                relay.cut();
                hold.wait();
                // Connections on which nothing was sent meanwhile end here.
                relay.cut_count() + relay.close_all()
            }
        };
        relay.pass();
        match count {
            0 => Err("the product had no connection".into()),
            _ => Ok(Injected::Done),
        }
    }

    /// What was acknowledged has to survive, so what was committed asynchronously is flushed first.
    fn kill_postmaster(&self) -> Result<Injected, Cause> {
        if !self.patterns.wait_for_asynchronous() {
            return Err("a write that commits asynchronously does not end".into());
        }
        self.server.connect()?.batch_execute(
            "begin; set local synchronous_commit = on; \
             update lookaside_verify.flushes set count = count + 1; commit",
        )?;
        self.server.kill_and_restart()?;
        drop(self.server.wait_until_ready()?);
        Ok(Injected::Done)
    }

    /// Faults of connections, tables and settings.
    fn inject_sql(&self, kind: FaultKind, hold: Hold) -> Result<Injected, Cause> {
        let mut connection = self.server.connect()?;
        let (begin, end) = match kind {
            FaultKind::KillBackend => {
                let terminated = format!(
                    "select count(pg_terminate_backend(pid)) from \
                     (select pid from pg_stat_activity where datname = current_database() \
                     and application_name in ('{WRITER_NAME}', '{PRODUCT_NAME}') \
                     and (random() < 0.5 or pid = (select max(pid) from pg_stat_activity \
                     where application_name = '{PRODUCT_NAME}'))) backends"
                );
                connection.query(terminated, &[])?;
                hold.wait();
                return Ok(Injected::Done);
            }
            FaultKind::AddColumn => (
                "alter table lookaside_verify.registers add column added bigint default 7"
                    .to_owned(),
                "alter table lookaside_verify.registers drop column if exists added".to_owned(),
            ),
            FaultKind::RenameColumn => (
                "alter table lookaside_verify.registers rename column note to remark".to_owned(),
                "alter table lookaside_verify.registers rename column remark to note".to_owned(),
            ),
            FaultKind::ChangeReplicaIdentity => (
                "alter table lookaside_verify.registers replica identity full".to_owned(),
                "alter table lookaside_verify.registers replica identity default".to_owned(),
            ),
            FaultKind::RewriteTable => (
                "vacuum full lookaside_verify.registers".to_owned(),
                "select 1".to_owned(),
            ),
            FaultKind::ReplaceView => (
                format!("create or replace {VIEW} where id >= 0"),
                format!("create or replace {VIEW}"),
            ),
            FaultKind::StallStandby => return stall_standby(&mut connection, hold),
            other => return Err(format!("{other} is not written").into()),
        };
        let begun = connection.batch_execute(begin);
        hold.wait();
        // What was begun in part is undone, too.
        let ended = self.retry(&end);
        begun?;
        ended?;
        Ok(Injected::Done)
    }

    /// Faults of the product's feed, if it has one.
    fn inject_feed(&self, kind: FaultKind, hold: Hold) -> Result<Injected, Cause> {
        let mut connection = self.server.connect()?;
        let slots = format!(
            "select coalesce(active_pid, 0)::bigint, slot_name::text from pg_replication_slots \
             where slot_name like '{FEED_NAMES}' and database = current_database()"
        );
        let slots = connection.query(slots, &[])?.rows;
        let senders: Vec<i64> = slots.iter().filter_map(|row| int(row, 0)).collect();
        let senders: Vec<i64> = senders.into_iter().filter(|pid| *pid != 0).collect();
        match kind {
            FaultKind::AlterPublication => return self.alter_publication(&mut connection, hold),
            _ if slots.is_empty() => return Ok(Injected::NotApplicable(NO_FEED)),
            FaultKind::StopWalsender => {
                let pids = senders.iter().filter_map(|pid| Pid::from_raw(*pid as i32));
                let pids: Vec<Pid> = pids.collect();
                if pids.is_empty() {
                    return Err("no slot is in use".into());
                }
                for pid in &pids {
                    kill_process(*pid, Signal::STOP)?;
                }
                hold.wait();
                for pid in &pids {
                    // It may have ended.
                    let _ = kill_process(*pid, Signal::CONT);
                }
            }
            FaultKind::StalledReconnect => {
                reconnect_stalled(self.server, &mut connection, &senders)?;
                // The reads that matter come when it is over.
                thread::sleep(FOLLOW_TIME.max(hold.length));
                return end_stall(&mut connection).map(|()| Injected::Done);
            }
            FaultKind::OverflowQueue => {
                let update = format!(
                    "insert into lookaside_verify.registers (id, version) \
                     select id, 0 from generate_series({FOREIGN_ID_MIN}, {}) id \
                     on conflict (id) do update set version = registers.version + 1",
                    FOREIGN_ID_MIN + QUEUE_ROW_COUNT - 1
                );
                while !hold.is_over() {
                    connection.batch_execute(update.as_str())?;
                }
                connection.batch_execute(format!(
                    "delete from lookaside_verify.registers where id >= {FOREIGN_ID_MIN}"
                ))?;
            }
            _ => {
                for pid in senders {
                    connection.query("select pg_terminate_backend($1::int)", &[Value::Int(pid)])?;
                }
                if kind == FaultKind::DropSlot {
                    drop_slots(&mut connection, &hold)?;
                }
                hold.wait();
            }
        }
        Ok(Injected::Done)
    }

    /// The table leaves its publications, and comes back.
    fn alter_publication(
        &self,
        connection: &mut Connection,
        hold: Hold,
    ) -> Result<Injected, Cause> {
        let sql = format!(
            "select quote_ident(pubname) from pg_publication_tables \
             where pubname like '{FEED_NAMES}' and schemaname = 'lookaside_verify' \
             and tablename = 'registers'"
        );
        let rows = connection.query(sql, &[])?.rows;
        let names: Vec<String> = rows
            .iter()
            .map(|row| row[0].to_text().to_string())
            .collect();
        if names.is_empty() {
            return Ok(Injected::NotApplicable(NO_PUBLICATION));
        }
        for name in &names {
            let drop = "drop table lookaside_verify.registers";
            connection.batch_execute(format!("alter publication {name} {drop}"))?;
        }
        hold.wait();
        for name in &names {
            let add = "add table lookaside_verify.registers";
            self.retry(&format!("alter publication {name} {add}"))?;
        }
        // Beside writers that go on.
        thread::sleep(FOLLOW_TIME);
        Ok(Injected::Done)
    }

    /// Executes what undoes a fault, on a new connection: the first one may be lost.
    fn retry(&self, sql: &str) -> Result<(), Cause> {
        self.server.wait_until_ready()?.batch_execute(sql)?;
        Ok(())
    }
}

/// Commits are in the log and wait for a standby that there is not.
fn stall_standby(connection: &mut Connection, hold: Hold) -> Result<Injected, Cause> {
    let begun = begin_stall(connection);
    hold.wait();
    end_stall(connection)?;
    begun?;
    Ok(Injected::Done)
}

fn begin_stall(connection: &mut Connection) -> Result<(), Cause> {
    // Not in a transaction, and so one by one.
    connection
        .batch_execute("alter system set synchronous_standby_names = 'lookaside_verify_absent'")?;
    connection.batch_execute("select pg_reload_conf()")?;
    Ok(())
}

fn end_stall(connection: &mut Connection) -> Result<(), Cause> {
    connection.batch_execute("alter system reset synchronous_standby_names")?;
    connection.batch_execute("select pg_reload_conf()")?;
    Ok(())
}

/// A feed begins after commits that its new slot does not send, and that are not visible yet: commits
/// wait for a standby from here on.
///
/// The server creates a slot in two steps. Before each, it waits for the transactions that have begun
/// before it, and what commits after the second one is sent. So a transaction is open at the first step,
/// another one at the second step, and a commit has to begin to wait between the steps.
fn reconnect_stalled(
    server: &Server,
    connection: &mut Connection,
    senders: &[i64],
) -> Result<(), Cause> {
    let mut first = OpenTransaction::begin(server)?;
    for pid in senders {
        connection.query("select pg_terminate_backend($1::int)", &[Value::Int(*pid)])?;
    }
    wait_until_true(connection, &first.is_awaited())?;
    let mut second = OpenTransaction::begin(server)?;
    first.end()?;
    wait_until_true(connection, &second.is_awaited())?;
    let stalled = begin_stall(connection).and_then(|()| {
        let waiting = "select exists (select from pg_stat_activity where wait_event = 'SyncRep')";
        wait_until_true(connection, waiting)
    });
    let streaming = "select exists (select from pg_stat_replication where state = 'streaming')";
    let ended = stalled
        .and_then(|()| second.end())
        .and_then(|()| wait_until_true(connection, streaming));
    if ended.is_err() {
        end_stall(connection)?;
    }
    ended
}

/// A transaction with an identifier, which commits nothing.
struct OpenTransaction {
    connection: Connection,
    pid: i64,
}

impl OpenTransaction {
    fn begin(server: &Server) -> Result<Self, Cause> {
        let mut connection = server.connect()?;
        connection.batch_execute("begin; select pg_current_xact_id()")?;
        let pid = connection.query("select pg_backend_pid()::bigint", &[])?;
        let pid = pid.rows.first().and_then(|row| int(&row, 0));
        Ok(Self {
            connection,
            pid: pid.ok_or("no process number")?,
        })
    }

    /// Whether the creation of a slot waits for it.
    fn is_awaited(&self) -> String {
        format!(
            "select exists (select from pg_stat_activity where backend_type = 'walsender' \
             and {} = any(pg_blocking_pids(pid)))",
            self.pid
        )
    }

    fn end(&mut self) -> Result<(), Cause> {
        Ok(self.connection.batch_execute("rollback")?)
    }
}

/// How long a feed may take to connect again, after several failures.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(12);

/// Asks until the answer is true.
fn wait_until_true(connection: &mut Connection, sql: &str) -> Result<(), Cause> {
    let begin = Instant::now();
    loop {
        let answer = connection.query(sql, &[])?;
        if let Some([Value::Bool(true)]) = answer.rows.first().as_deref() {
            return Ok(());
        }
        if begin.elapsed() > RECONNECT_TIMEOUT {
            return Err("the feed does not create a slot while commits wait".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A slot can be dropped as soon as nobody uses it.
fn drop_slots(connection: &mut Connection, hold: &Hold) -> Result<(), Cause> {
    let sql = format!(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots \
         where slot_name like '{FEED_NAMES}' and database = current_database() \
         and active_pid is null"
    );
    loop {
        match connection.query(sql.as_str(), &[]) {
            Ok(_) => return Ok(()),
            Err(error) if hold.is_over() => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Stops this process: a child sends the signals, since a stopped process cannot.
fn stop_process() -> Result<Injected, Cause> {
    let script = format!(
        "kill -STOP {pid}; sleep {seconds}; kill -CONT {pid}",
        pid = process::id(),
        seconds = STOP_LENGTH.as_secs_f64()
    );
    let mut child = Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    match child.wait()?.success() {
        true => Ok(Injected::Done),
        false => Err("the signals could not be sent".into()),
    }
}

/// The time that a fault lasts.
#[derive(Clone, Copy, Debug)]
struct Hold {
    begin: Instant,
    length: Duration,
}

impl Hold {
    fn left(&self) -> Duration {
        self.length.saturating_sub(self.begin.elapsed())
    }

    fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Waits for the rest.
    fn wait(&self) {
        thread::sleep(self.left());
    }
}

fn text(connection: &mut Connection, sql: &str) -> Result<String, Cause> {
    let row = connection.query_one(sql, &[])?;
    Ok(row.as_ref().get::<&str>(0)?.to_owned())
}
