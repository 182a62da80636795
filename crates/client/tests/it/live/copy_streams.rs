//! COPY piece by piece.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use lookaside_client::nonblocking::Lock;
use lookaside_client::postgres::{Client, Options, PostgresDriver};
use lookaside_client::{
    Config, Environment, Error, ErrorKind, HostAddress, Pool, PoolOptions, PostgresConfig,
    TransactionOptions,
};
use lookaside_embedded::Postgres;
use lookaside_testing::wait_until_async;

use super::tokio::block_on;
use super::{config, connect, databases, shown};

/// Several times what a pipe, a socket and the server's buffers hold.
const ROW_COUNT: usize = 300_000;
const OUT: &str = "copy (select * from t order by k) to stdout";
const IN: &str = "copy t from stdin";

fn lines(from: usize, to: usize) -> String {
    (from..to)
        .map(|k| format!("{k}\tthe value of {k}\n"))
        .collect()
}

async fn client(postgres: &Postgres) -> Client {
    let create = "drop table if exists t; create table t (k int primary key, v text)";
    postgres.execute(create).unwrap();
    let config = config(&postgres.url());
    Client::connect_with(&config, Options::default())
        .await
        .unwrap()
}

#[test]
fn data_goes_in_and_out_piece_by_piece() {
    for postgres in databases() {
        block_on(async {
            let client = client(&postgres).await;
            let mut lock = client.lock().await.unwrap();
            let mut copy = lock.copy_in(IN);
            let all = lines(0, ROW_COUNT);
            // Cut anywhere.
            for piece in all.as_bytes().chunks(77_777) {
                copy.send(piece).await.unwrap();
            }
            assert_eq!(copy.finish().await.unwrap(), ROW_COUNT as u64);
            let mut copy = lock.copy_out(OUT);
            let (mut found, mut count) = (Vec::new(), 0);
            while let Some(data) = copy.next_chunk().await.unwrap() {
                assert!(data.len() < 1 << 20, "{}", data.len());
                assert!(data.ends_with(b"\n"), "rows come whole");
                found.extend(data);
                count += 1;
            }
            assert!(found == all.as_bytes());
            assert!(count > 5, "{count}");
            assert_eq!(copy.next_chunk().await.unwrap(), None);
            drop(copy);
            drop(lock);
            let count = client.query("select count(*) from t", &[]).await;
            assert_eq!(shown(&count), ROW_COUNT.to_string());
        });
    }
}

#[test]
fn who_waits_copies_piece_by_piece_as_well() {
    for postgres in databases() {
        postgres
            .execute("create table t (k int primary key, v text)")
            .unwrap();
        let mut connection = connect(&postgres);
        let all = lines(0, ROW_COUNT);
        let mut copy = connection.copy_in(IN).unwrap();
        for piece in all.as_bytes().chunks(77_777) {
            copy.send(piece).unwrap();
        }
        assert_eq!(copy.finish().unwrap(), ROW_COUNT as u64);
        let mut found = Vec::new();
        let mut copy = connection.copy_out(OUT).unwrap();
        while let Some(data) = copy.next_chunk().unwrap() {
            found.extend(data);
        }
        drop(copy);
        assert!(found == all.as_bytes());
        // Half-way, both ways.
        drop(connection.copy_out(OUT).unwrap());
        let mut copy = connection.copy_out(OUT).unwrap();
        copy.next_chunk().unwrap().unwrap();
        drop(copy);
        let mut copy = connection.copy_in(IN).unwrap();
        copy.send(lines(ROW_COUNT, ROW_COUNT + 10)).unwrap();
        drop(copy);
        let mut copy = connection.copy_in(IN).unwrap();
        let bad = (0..).map(|_| copy.send("no number\tx\n".repeat(10_000)));
        let error = bad.take(1000).find_map(Result::err).unwrap();
        assert_eq!(error.sqlstate().unwrap().to_string(), "22P02");
        let again = copy.send("1\t1\n").unwrap_err();
        assert_eq!(again.sqlstate(), error.sqlstate());
        assert_eq!(copy.finish().unwrap_err().sqlstate(), error.sqlstate());
        let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
        let mut copy = transaction.copy_in(IN).unwrap();
        copy.send(lines(ROW_COUNT, ROW_COUNT + 10)).unwrap();
        assert_eq!(copy.finish().unwrap(), 10);
        transaction.rollback().unwrap();
        let count = connection.query("select count(*) from t", &[]);
        assert_eq!(shown(&count), ROW_COUNT.to_string());
    }
}

/// What is not taken stays with the server, which waits to write it.
#[test]
fn the_server_waits_for_a_slow_reader() {
    for postgres in databases() {
        block_on(async {
            let client = client(&postgres).await;
            let process = shown(&client.query("select pg_backend_pid()", &[]).await);
            let mut lock = client.lock().await.unwrap();
            let sql = "copy (select repeat('x', 1000) from generate_series(1, 100000)) to stdout";
            let mut copy = lock.copy_out(sql);
            let first = copy.next_chunk().await.unwrap().unwrap();
            let waits = format!(
                "select wait_event = 'ClientWrite' from pg_stat_activity where pid = {process}"
            );
            let mut watcher = connect(&postgres);
            wait_until_async("the server waits", async || {
                shown(&watcher.query(waits.as_str(), &[])) == "true"
            })
            .await;
            let mut size = first.len();
            while let Some(data) = copy.next_chunk().await.unwrap() {
                size += data.len();
            }
            assert_eq!(size, 1001 * 100_000);
        });
    }
}

#[test]
fn a_copy_that_fails_or_is_given_up_leaves_the_connection_as_it_was() {
    for postgres in databases() {
        block_on(async {
            let client = client(&postgres).await;
            let mut lock = client.lock().await.unwrap();
            // Given up before the end, or before the beginning.
            let mut copy = lock.copy_in(IN);
            copy.send(lines(0, 10)).await.unwrap();
            drop(copy);
            drop(lock.copy_in(IN));
            assert_eq!(shown(&lock.query("select count(*) from t", &[]).await), "0");
            let rows = "copy (select * from generate_series(1, 1000000)) to stdout";
            let mut copy = lock.copy_out(rows);
            copy.next_chunk().await.unwrap().unwrap();
            drop(copy);
            drop(lock.copy_out(rows));
            assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
            // Refused at once, half-way, and in the end.
            let mut copy = lock.copy_in("copy nowhere from stdin");
            let error = loop {
                if let Err(error) = copy.send(lines(0, 1000)).await {
                    break error;
                }
            };
            assert_eq!(error.sqlstate().unwrap().to_string(), "42P01");
            drop(copy);
            let copy = lock.copy_in("copy nowhere from stdin");
            let error = copy.finish().await.unwrap_err();
            assert_eq!(error.sqlstate().unwrap().to_string(), "42P01");
            let mut copy = lock.copy_in(IN);
            copy.send("1\tone\n1\ttwice\n").await.unwrap();
            let error = copy.finish().await.unwrap_err();
            assert_eq!(error.sqlstate().unwrap().to_string(), "23505");
            let mut copy =
                lock.copy_out("copy (select 1 / (3 - k) from generate_series(1, 9) k) to stdout");
            let error = loop {
                match copy.next_chunk().await {
                    Ok(data) => assert!(data.is_some(), "it fails before its end"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.sqlstate().unwrap().to_string(), "22012");
            let again = copy.next_chunk().await.unwrap_err();
            assert_eq!(again.sqlstate(), error.sqlstate());
            drop(copy);
            // The wrong way round, and no COPY at all.
            let error = lock.copy_in(OUT).finish().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
            let error = lock.copy_out(IN).next_chunk().await.unwrap_err();
            assert!(error.sqlstate().is_some() || error.kind() == ErrorKind::Misuse);
            let error = lock.copy_in("select 1").finish().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse);
            // A part of a transaction is undone with it.
            let mut transaction = lock.begin(TransactionOptions::default()).await.unwrap();
            let mut copy = transaction.copy_in(IN);
            copy.send(lines(0, 5)).await.unwrap();
            assert_eq!(copy.finish().await.unwrap(), 5);
            let mut copy = transaction.copy_out(OUT);
            let data = copy.next_chunk().await.unwrap().unwrap();
            assert!(data.starts_with(lines(0, 1).as_bytes()));
            drop(copy);
            transaction.rollback().await.unwrap();
            assert_eq!(shown(&lock.query("select count(*) from t", &[]).await), "0");
        });
    }
}

#[test]
fn a_connection_that_is_lost_ends_both() {
    for postgres in databases() {
        block_on(async {
            for is_in in [true, false] {
                let client = client(&postgres).await;
                let process = shown(&client.query("select pg_backend_pid()", &[]).await);
                let mut lock = client.lock().await.unwrap();
                let mut watcher = connect(&postgres);
                let kill = format!("select pg_terminate_backend({process})");
                let error = if is_in {
                    let mut copy = lock.copy_in(IN);
                    copy.send(lines(0, 10)).await.unwrap();
                    watcher.query(kill, &[]).unwrap();
                    loop {
                        if let Err(error) = copy.send(lines(0, 100)).await {
                            break error;
                        }
                    }
                } else {
                    let sql =
                        "copy (select repeat('x', 1000) from generate_series(1, 100000)) to stdout";
                    let mut copy = lock.copy_out(sql);
                    copy.next_chunk().await.unwrap().unwrap();
                    watcher.query(kill, &[]).unwrap();
                    loop {
                        match copy.next_chunk().await {
                            Ok(data) => assert!(data.is_some(), "it ends before its end"),
                            Err(error) => break error,
                        }
                    }
                };
                assert!(error.is_connection_lost(), "{error:?}");
            }
        });
    }
}

#[test]
fn a_session_is_reset() {
    for postgres in databases() {
        block_on(async {
            let config = Config::parse(&postgres.url(), &Environment::empty()).unwrap();
            let options = PoolOptions {
                connection_count_max: 1,
                session: vec!["set application_name = 'ours'".to_owned()],
                ..PoolOptions::default()
            };
            let pool = Pool::new(config, options);
            let mut lock = pool.lock().await.unwrap();
            let sql = "select current_setting('application_name')";
            lock.query("set application_name = 'mine'", &[])
                .await
                .unwrap();
            assert_eq!(shown(&lock.query(sql, &[]).await), "mine");
            lock.reset().await.unwrap();
            assert_eq!(shown(&lock.query(sql, &[]).await), "ours");
        });
    }
}

/// How much the slow link passes on at a time, and how long it then pauses: 0.6 MB a second.
const SLOW_SIZE: usize = 16 * 1024;
const SLOW_PAUSE: Duration = Duration::from_millis(25);

/// A proxy that passes bytes on slowly. The buffers of its sockets hold little. It ends with the test's
/// process.
fn slow_link(postgres: &Postgres, folder: &Path) -> PostgresConfig {
    fn pass(mut from: UnixStream, mut to: UnixStream) {
        let mut space = vec![0; SLOW_SIZE];
        while let Ok(size @ 1..) = from.read(&mut space) {
            if to.write_all(&space[..size]).is_err() {
                break;
            }
            // sleep: the delay of the slow link
            thread::sleep(SLOW_PAUSE);
        }
        let _ = from.shutdown(std::net::Shutdown::Both);
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
    let mut config = config(&postgres.url());
    let server = config.hosts[0].postgres_socket().unwrap();
    config.hosts[0].address = HostAddress::Unix(folder.to_owned());
    let listener = UnixListener::bind(config.hosts[0].postgres_socket().unwrap()).unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), UnixStream::connect(&server).unwrap());
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || pass(from, to));
            }
        }
    });
    config
}

/// Each wait takes about twice as long as `query_timeout`, while bytes pass all the time.
#[test]
fn a_copy_over_a_slow_link_is_not_canceled() {
    const SIZE: usize = 6_400_000;
    for postgres in databases().into_iter().take(1) {
        let folder = tempfile::tempdir().unwrap();
        let config = slow_link(&postgres, folder.path());
        let create = "drop table if exists t; create table t (k int primary key, v text)";
        postgres.execute(create).unwrap();
        block_on(async {
            let options = PoolOptions {
                acquire_timeout: LONG,
                query_timeout: Some(Duration::from_secs(5)),
                ..PoolOptions::default()
            };
            let pool = Pool::new(Config::Postgres(config), options);
            let (mut first, mut second) = (pool.lock().await.unwrap(), pool.lock().await.unwrap());
            let value = "x".repeat(SIZE);
            let copied_in = async {
                let mut copy = first.as_postgres().unwrap().copy_in(IN);
                for k in 0..2 {
                    copy.send(format!("{k}\t{value}\n")).await.unwrap();
                }
                // It waits until the first piece is sent, and the end waits for the second one.
                copy.send("2\tx\n").await.unwrap();
                assert_eq!(copy.finish().await.unwrap(), 3);
            };
            let copied_out = async {
                let sql = format!("copy (select repeat('x', {SIZE})) to stdout");
                let mut copy = second.as_postgres().unwrap().copy_out(sql);
                let row = copy.next_chunk().await.unwrap().unwrap();
                assert_eq!(row.len(), SIZE + 1);
                assert_eq!(copy.next_chunk().await.unwrap(), None);
            };
            tokio::join!(copied_in, copied_out);
        });
    }
}

/// A server that goes on with nothing is waited for at each step for as long as for a query.
#[test]
fn a_server_that_stands_still_is_not_waited_for() {
    for postgres in databases().into_iter().take(1) {
        block_on(async {
            let create = "drop table if exists t; create table t (k int primary key, v text)";
            postgres.execute(create).unwrap();
            let url = postgres.url();
            let config = || Config::parse(&url, &Environment::empty()).unwrap();
            let options = PoolOptions {
                acquire_timeout: LONG,
                query_timeout: Some(Duration::from_secs(3)),
                ..PoolOptions::default()
            };
            let pool = Pool::new(config(), options);
            let options = PoolOptions {
                acquire_timeout: LONG,
                query_timeout: Some(LONG),
                ..PoolOptions::default()
            };
            let other = Pool::new(config(), options);
            for act in [Act::Send, Act::Finish, Act::Read, Act::Begin, Act::Commit] {
                let error = loop {
                    let mut lock = pool.lock().await.unwrap();
                    let running = act.run(lock.as_postgres().unwrap());
                    let run = tokio::time::timeout(Duration::from_secs(120), running).await;
                    match run.unwrap_or_else(|_| panic!("no end to {act:?}")) {
                        Ok(error) => break error,
                        // The machine is busy, and the server was not stopped yet.
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Deadline, "{error:?}"),
                    }
                };
                assert_eq!(error.kind(), ErrorKind::Deadline, "{act:?}: {error:?}");
                let text = error.to_string();
                assert!(
                    text.contains("`PoolOptions::query_timeout`"),
                    "{act:?}: {text}"
                );
                // Where its end was sent, the server may have come to it before the cancellation.
                if matches!(act, Act::Send) {
                    let count = other.query("select count(*) from t", &[]).await;
                    assert_eq!(shown(&count), "0");
                }
                postgres.execute("truncate t").unwrap();
            }
        });
    }
}

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(100_000);

/// A server process that is stopped, at the latest until this is dropped.
struct Stopped(String);

impl Stopped {
    /// Nothing is stopped yet.
    async fn find(lock: &Lock<PostgresDriver>) -> Result<Self, Error> {
        let answer = lock.query("select pg_backend_pid()", &[]).await?;
        Ok(Self(shown(&Ok(answer))))
    }

    fn signal(&self, signal: &str) -> bool {
        let mut kill = std::process::Command::new("kill");
        let status = kill.args([signal, &self.0]).status();
        status.is_ok_and(|status| status.success())
    }

    fn stop(&self) {
        assert!(self.signal("-STOP"));
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

/// What is done when the server stops.
#[derive(Clone, Copy, Debug)]
enum Act {
    Send,
    Finish,
    Read,
    Begin,
    Commit,
}

impl Act {
    /// The error that it ends with.
    ///
    /// # Errors
    ///
    /// When something before it failed.
    async fn run(self, lock: &mut Lock<PostgresDriver>) -> Result<Error, Error> {
        let server = Stopped::find(lock).await?;
        Ok(match self {
            Self::Send => {
                let mut copy = lock.copy_in(IN);
                copy.send(lines(0, 1)).await?;
                server.stop();
                let mut from = 10_000;
                let error = loop {
                    if let Err(error) = copy.send(lines(from, from + 10_000)).await {
                        break error;
                    }
                    from += 10_000;
                };
                let again = copy.send("x").await.unwrap_err();
                assert_eq!(again.to_string(), error.to_string());
                error
            }
            Self::Finish => {
                let mut copy = lock.copy_in(IN);
                copy.send(lines(0, 1)).await?;
                server.stop();
                copy.finish().await.unwrap_err()
            }
            Self::Read => {
                let sql =
                    "copy (select repeat('x', 1000) from generate_series(1, 1000000)) to stdout";
                let mut copy = lock.copy_out(sql);
                copy.next_chunk().await?.unwrap();
                server.stop();
                loop {
                    match copy.next_chunk().await {
                        Ok(data) => assert!(data.is_some(), "it has stopped"),
                        Err(error) => break error,
                    }
                }
            }
            Self::Begin => {
                server.stop();
                let begun = lock.begin(TransactionOptions::default()).await;
                begun.map(drop).unwrap_err()
            }
            Self::Commit => {
                let transaction = lock.begin(TransactionOptions::default()).await?;
                server.stop();
                transaction.commit().await.unwrap_err()
            }
        })
    }
}
