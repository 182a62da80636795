//! What do the definitions of a result's columns cost, and what is saved if they need not be parsed
//! or sent?

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lookaside_client::mysql::blocking::Connection;
use lookaside_client::mysql::{Definitions, Options};
use lookaside_client::{Answer, Config, Environment, HostAddress, MysqlConfig, Request};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, measure};
use lookaside_load::relay::Relay;
use lookaside_load::report;
use lookaside_value::{ParamBatch, Value};

use super::Result;

/// Rows of each table.
const ROW_COUNT: u64 = 10_000;
/// Rows of one `insert`: of 150 columns, half a megabyte, which every server accepts.
const INSERT_ROW_COUNT: u64 = 500;
/// The number of answers that are hashed.
const HASHED: usize = 100;

/// Wide and long results of MySQL or MariaDB, by the handling of column definitions
///
/// The tables are lookaside_bench_wide_N with N integer columns; they stay. The published shapes are
/// `--columns 2` with `--rows 10000` and with `--rows 1`, each without and with `--delay 30`.
#[derive(Debug, Args)]
pub(crate) struct MetadataArguments {
    /// The server to query, as mysql://user:password@host/database.
    #[arg(long, value_name = "URL")]
    url: String,
    /// The handling of the definitions; by default, all ways in turn.
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Columns of the table.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    columns: u16,
    /// Rows of each result.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=ROW_COUNT))]
    rows: u64,
    /// The number of queries in flight.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    window: u16,
    /// An additional delay of each round trip in milliseconds, by a relay in this process, whose
    /// CPU time is then included.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    delay: Option<u64>,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The definitions are sent and parsed each time, as by most drivers.
    Parse,
    /// MySQL sends them each time, and they are parsed only if they differ from the previous ones;
    /// MariaDB omits them while they are the same.
    Default,
    /// MySQL omits them even if they have changed: see `Request::pinned_columns` for the risk.
    Pinned,
}

/// How long pinned columns are trusted.
const PINNED_CHECK_AFTER: Duration = Duration::from_secs(60);

pub(super) fn run(arguments: &MetadataArguments) -> Result<()> {
    let mut config = arguments.config()?;
    let mut fill = Bench::connect(arguments, &config, Mode::Default)?;
    fill.fill()?;
    if let Some(delay) = arguments.delay {
        config = relayed(config, Duration::from_millis(delay))?;
    }
    let modes = match arguments.mode {
        Some(mode) => vec![mode],
        None if fill.server.contains("MariaDB") => vec![Mode::Parse, Mode::Default],
        None => Mode::value_variants().to_vec(),
    };
    for mode in modes {
        let measured = Bench::connect(arguments, &config, mode)?.measure(mode)?;
        report::print(&measured, arguments.rounds.json)?;
    }
    Ok(())
}

impl MetadataArguments {
    fn config(&self) -> Result<MysqlConfig> {
        match Config::parse(&self.url, &Environment::of_process())? {
            Config::Mysql(config) => Ok(config),
            _ => Err(
                "PostgreSQL sends definitions only when it is asked to, so the URL has to \
                be mysql://…"
                    .into(),
            ),
        }
    }
}

/// The same server through a link with a delay.
fn relayed(mut config: MysqlConfig, round_trip: Duration) -> Result<MysqlConfig> {
    let host = config.hosts.first_mut().ok_or("a URL names a server")?;
    let HostAddress::Tcp { name, address } = &mut host.address else {
        return Err(
            "a link is a TCP connection, so with --delay the URL has to name a host".into(),
        );
    };
    let target = match address {
        Some(ip) => Some(SocketAddr::new(*ip, host.port)),
        None => (name.as_str(), host.port).to_socket_addrs()?.next(),
    };
    let target = target.ok_or_else(|| format!("{name} has no address"))?;
    // A certificate is still checked for the name.
    *address = Some(Ipv4Addr::LOCALHOST.into());
    host.port = Relay::start(target, round_trip / 2)?.port;
    config.hosts.truncate(1);
    Ok(config)
}

struct Bench<'a> {
    arguments: &'a MetadataArguments,
    connection: Connection,
    server: String,
}

impl<'a> Bench<'a> {
    fn connect(arguments: &'a MetadataArguments, config: &MysqlConfig, mode: Mode) -> Result<Self> {
        let options = Options {
            window: arguments.window.into(),
            pinned_check_after: Some(PINNED_CHECK_AFTER),
            definitions: match mode {
                Mode::Parse => Definitions::Read,
                Mode::Default | Mode::Pinned => Definitions::Compare,
            },
            ..Options::default()
        };
        let mut connection = Connection::connect_with(config, options)?;
        let version = connection.query("select version()", &[])?;
        let version = version.rows.row(0)[0].to_text();
        let server = match version.contains("MariaDB") {
            true => version.to_string(),
            false => format!("MySQL {version}"),
        };
        Ok(Self {
            arguments,
            connection,
            server,
        })
    }

    fn table(&self) -> String {
        format!("lookaside_bench_wide_{}", self.arguments.columns)
    }

    /// Creates the table if it is missing or incomplete.
    fn fill(&mut self) -> Result<()> {
        let (table, column_count) = (self.table(), u64::from(self.arguments.columns));
        let columns: String = (1..column_count)
            .map(|column| format!(", c{column} int not null"))
            .collect();
        let create = format!("create table if not exists {table} (id int primary key{columns})");
        self.connection.query(create, &[])?;
        let count = format!("select count(*) from {table}");
        let count = self.connection.query(count, &[])?;
        if count.rows.row(0)[0].as_int() == Some(ROW_COUNT.cast_signed()) {
            return Ok(());
        }
        self.connection
            .query(format!("truncate table {table}"), &[])?;
        for first in (1..=ROW_COUNT).step_by(INSERT_ROW_COUNT as usize) {
            let row = |id: u64| {
                // Five digits, different in each column and row nearby.
                let cells: String = (1..column_count)
                    .map(|column| format!(",{}", 10_000 + (id * 31 + column * 7) % 90_000))
                    .collect();
                format!("({id}{cells})")
            };
            let rows: Vec<String> = (first..first + INSERT_ROW_COUNT).map(row).collect();
            let insert = format!("insert into {table} values {}", rows.join(","));
            self.connection.query(insert, &[])?;
        }
        Ok(())
    }

    fn measure(mut self, mode: Mode) -> Result<Measured> {
        let compared = if self.arguments.rows == 1 { "=" } else { "<=" };
        let sql = format!("select * from {} where id {compared} ?", self.table());
        let sql: Arc<str> = sql.into();
        let mut id = 0;
        let mut ask = |count: usize| -> Result<Vec<Answer>> {
            let mut keys = ParamBatch::new(1);
            for _ in 0..count {
                // 17 is coprime to the number of rows, so each row comes once.
                id = (id + 17) % ROW_COUNT;
                let key = match self.arguments.rows {
                    1 => id + 1,
                    rows => rows,
                };
                keys.push([Value::Int(key.cast_signed())]);
            }
            let request = Request::many(Arc::clone(&sql), keys);
            let request = match mode {
                Mode::Parse | Mode::Default => request,
                Mode::Pinned => request.pinned_columns(),
            };
            let answers = self.connection.request(request)?;
            Ok(answers
                .into_iter()
                .collect::<lookaside_client::Result<_>>()?)
        };
        let mut hash = AnswerHash::new();
        for answer in ask(HASHED)? {
            for row in answer.rows.iter() {
                row.iter()
                    .for_each(|cell| hash.add(cell.to_text().as_bytes()));
            }
        }
        let window = usize::from(self.arguments.window);
        let (ops, cpu, wall) = measure(self.arguments.rounds, || {
            ask(window).map(|answers| answers.len() as u64)
        })?;
        let mode = mode.to_possible_value().expect("no mode is hidden");
        let MetadataArguments { columns, rows, .. } = self.arguments;
        let link = match self.arguments.delay {
            Some(delay) => format!(", {delay} ms"),
            None => String::new(),
        };
        Ok(Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "metadata",
            case: format!(
                "{}, {columns} columns, {rows} rows, window {window}{link}",
                mode.get_name()
            ),
            ops,
            cpu_ns_per_op: cpu,
            wall_ns_per_op: wall,
            hash: hash.text(),
            notes: vec![("server", self.server)],
        })
    }
}
