//! What others say with NOTIFY.

use std::time::{Duration, Instant};

use lookaside_client::postgres::{
    Client, Hook, Listener, ListenerEvent, ListenerOptions, Options, Route, blocking,
};
use lookaside_client::{Error, ErrorKind, TransactionOptions};
use lookaside_embedded::Postgres;
use lookaside_testing::wait_until_async;
use lookaside_value::Value;
use tokio::time::timeout;

use super::restart::Server;
use super::tokio::{block_on, connect, wait_outside};
use super::{config, database, databases, shown};

const NOTIFY: &str = "select pg_notify($1, $2)";

async fn listen(postgres: &Postgres, channels: &[&str]) -> Listener {
    let config = config(&postgres.url());
    let options = ListenerOptions::default();
    let channels = channels.iter().copied();
    let listening = Listener::connect(&config, options, channels).await;
    listening.unwrap()
}

async fn notify(client: &Client, channel: &str, payload: &str) {
    let params = [Value::from(channel), Value::from(payload)];
    client.query(NOTIFY, &params).await.unwrap();
}

/// The next event, soon.
async fn next(listener: &mut Listener) -> ListenerEvent {
    let next = timeout(Duration::from_secs(120), listener.next()).await;
    next.expect("something is heard")
}

async fn heard(listener: &mut Listener) -> String {
    match next(listener).await {
        ListenerEvent::Established => "established".to_owned(),
        ListenerEvent::Lost(_) => "lost".to_owned(),
        ListenerEvent::Notification(notification) => {
            format!("{}:{}", notification.channel, notification.payload)
        }
        ListenerEvent::Missed(count) => format!("-{count}"),
        event => panic!("{event:?} is unknown"),
    }
}

async fn check(listener: &mut Listener, expected: &[&str]) {
    for expected in expected {
        assert_eq!(heard(listener).await, *expected);
    }
}

/// Whether nothing more comes.
async fn is_silent(listener: &mut Listener) -> bool {
    let patience = Duration::from_millis(50);
    timeout(patience, listener.next()).await.is_err()
}

#[test]
fn what_is_said_is_heard() {
    for postgres in databases() {
        block_on(async {
            let mut listener = listen(&postgres, &["goods", "Odd \"name"]).await;
            let client = connect(&postgres).await;
            check(&mut listener, &["established"]).await;
            notify(&client, "goods", "1").await;
            notify(&client, "Odd \"name", "").await;
            notify(&client, "GOODS", "of nobody").await;
            check(&mut listener, &["goods:1", "Odd \"name:"]).await;
            assert!(is_silent(&mut listener).await);

            // Who said it.
            let process = shown(&client.query("select pg_backend_pid()", &[]).await);
            notify(&client, "goods", "2").await;
            let ListenerEvent::Notification(notification) = next(&mut listener).await else {
                panic!("it was said");
            };
            assert_eq!(notification.process_id.to_string(), process);

            // A transaction says it at its end, or not at all, and the same only once.
            let mut lock = client.lock().await.unwrap();
            for is_kept in [false, true] {
                let begun = lock.begin(TransactionOptions::default()).await;
                let transaction = begun.unwrap();
                for payload in ["3", "3", "4"] {
                    let params = [Value::from("goods"), Value::from(payload)];
                    transaction.query(NOTIFY, &params).await.unwrap();
                }
                assert!(is_silent(&mut listener).await);
                if is_kept {
                    transaction.commit().await.unwrap();
                } else {
                    transaction.rollback().await.unwrap();
                }
            }
            check(&mut listener, &["goods:3", "goods:4"]).await;
            assert!(is_silent(&mut listener).await);
        });
    }
}

#[test]
fn channels_come_and_go() {
    for postgres in databases() {
        block_on(async {
            let mut listener = listen(&postgres, &[]).await;
            let client = connect(&postgres).await;
            check(&mut listener, &["established"]).await;
            listener.listen("a").await.unwrap();
            listener.listen("b").await.unwrap();
            notify(&client, "a", "1").await;
            notify(&client, "b", "1").await;
            check(&mut listener, &["established", "a:1", "b:1"]).await;
            listener.unlisten("a").await.unwrap();
            listener.unlisten("never").await.unwrap();
            notify(&client, "a", "2").await;
            notify(&client, "b", "2").await;
            check(&mut listener, &["b:2"]).await;

            for bad in ["", "a\0b", &"x".repeat(64)] {
                let error = listener.listen(bad).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{bad:?}");
            }
            let longest = "x".repeat(63);
            listener.listen(longest.as_str()).await.unwrap();
            notify(&client, &longest, "3").await;
            check(&mut listener, &["established", &format!("{longest}:3")]).await;

            // The next connection knows which are wanted.
            end_session(&client).await;
            check(&mut listener, &["lost", "established"]).await;
            for channel in ["a", "b", &longest] {
                notify(&client, channel, "4").await;
            }
            check(&mut listener, &["b:4", &format!("{longest}:4")]).await;
            // Those that are named while there is none as well.
            end_session(&client).await;
            check(&mut listener, &["lost"]).await;
            listener.listen("c").await.unwrap();
            listener.unlisten("b").await.unwrap();
            check(&mut listener, &["established"]).await;
            for channel in ["a", "b", "c"] {
                notify(&client, channel, "5").await;
            }
            check(&mut listener, &["c:5"]).await;
        });
    }
}

/// Ends the listener's session, the only one of a client in the database but `client`'s own.
async fn end_session(client: &Client) {
    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
               where datname = current_database() and pid <> pg_backend_pid() \
               and backend_type = 'client backend'";
    assert_eq!(shown(&client.query(sql, &[]).await), "1");
}

#[test]
fn thousands_are_heard_in_order() {
    const COUNT: usize = 20_000;
    for postgres in databases() {
        block_on(async {
            let config = config(&postgres.url());
            let options = ListenerOptions {
                queue_count_max: 2 * COUNT,
                ..ListenerOptions::default()
            };
            let listening = Listener::connect(&config, options, ["a"]).await;
            let mut listener = listening.unwrap();
            check(&mut listener, &["established"]).await;
            let client = connect(&postgres).await;
            let sql = "select count(pg_notify('a', n::text)) from generate_series(1, $1::int8) n";
            let saying = async {
                for _ in 0..2 {
                    let half = [Value::Int((COUNT / 2) as i64)];
                    client.query(sql, &half).await.unwrap();
                }
            };
            let hearing = async {
                for number in (1..=COUNT / 2).chain(1..=COUNT / 2) {
                    assert_eq!(heard(&mut listener).await, format!("a:{number}"));
                }
            };
            ::tokio::join!(saying, hearing);
        });
    }
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    for postgres in databases() {
        block_on(async {
            let config = config(&postgres.url());
            let options = ListenerOptions {
                queue_count_max: 3,
                ..ListenerOptions::default()
            };
            let listening = Listener::connect(&config, options, ["a"]).await;
            let mut listener = listening.unwrap();
            check(&mut listener, &["established"]).await;
            let client = connect(&postgres).await;
            for number in 0..10 {
                notify(&client, "a", &number.to_string()).await;
            }
            // What asks behind them is answered behind them.
            listener.listen("b").await.unwrap();
            check(&mut listener, &["a:0", "a:1", "a:2", "-7", "established"]).await;
            notify(&client, "a", "10").await;
            check(&mut listener, &["a:10"]).await;
        });
    }
}

/// The server is restarted again and again while a client counts: no number may be unknown to
/// a listener that reads it at each `Established` and follows what is said.
#[test]
fn a_restarted_server_leaves_no_silent_gap() {
    for version in ["18", "15"] {
        if database(version, false).is_none() {
            continue;
        }
        let mut server = Server::start(version, "listener");
        block_on(async {
            let config = config(&server.url());
            let connect = || Client::connect_with(&config, Options::default());
            let client = connect().await.unwrap();
            let table = "create table counter(n int8 not null); insert into counter values (0)";
            for answer in client.script(table, 0).await.unwrap() {
                answer.unwrap();
            }
            drop(client);
            let options = ListenerOptions::default();
            let listening = Listener::connect(&config, options, ["counter"]).await;
            let mut listener = listening.unwrap();
            let mut known = None;
            for round in 1..=3 {
                server.stop().await;
                let error = loop {
                    match next(&mut listener).await {
                        ListenerEvent::Lost(error) => break error,
                        ListenerEvent::Established => known = None,
                        _ => {}
                    }
                };
                assert!(is_lost(&error), "{error:?}");
                // Attempts fail, and say why.
                let ListenerEvent::Lost(error) = next(&mut listener).await else {
                    panic!("there is no server");
                };
                assert!(is_lost(&error), "{error:?}");
                server.start_again().await;
                let client = connect().await.unwrap();
                let count = async {
                    for _ in 0..100 {
                        let sql = "with c as (update counter set n = n + 1 returning n) \
                                   select pg_notify('counter', n::text) from c";
                        client.query(sql, &[]).await.unwrap();
                    }
                };
                let follow = async {
                    while known != Some(round * 100) {
                        match next(&mut listener).await {
                            ListenerEvent::Established => {
                                let read = connect().await.unwrap();
                                let answer = read.query("select n from counter", &[]).await;
                                known = answer.unwrap().rows.row(0)[0].as_int();
                            }
                            ListenerEvent::Notification(said) => {
                                let number: i64 = said.payload.parse().unwrap();
                                // It may have been read before it was heard.
                                if let Some(before) = known.filter(|&before| before < number) {
                                    assert_eq!(number, before + 1, "nothing was left out");
                                    known = Some(number);
                                }
                            }
                            ListenerEvent::Lost(_) => known = None,
                            event => panic!("{event:?}"),
                        }
                    }
                };
                ::tokio::join!(count, follow);
            }
        });
    }
}

/// Whether it is what a server does that goes or comes.
fn is_lost(error: &Error) -> bool {
    let state = error.sqlstate().map(|state| state.to_string());
    error.is_connection_lost()
        || error.is_retryable()
        || state.is_some_and(|state| state.starts_with("57P0"))
}

#[test]
fn a_dropped_wait_does_not_stop_the_listener() {
    for postgres in databases() {
        block_on(async {
            let mut listener = listen(&postgres, &["a"]).await;
            let client = connect(&postgres).await;
            check(&mut listener, &["established"]).await;
            end_session(&client).await;
            check(&mut listener, &["lost"]).await;
            let impatient = async {
                loop {
                    // Far less than it takes to connect.
                    let wait = Duration::from_millis(1);
                    if let Ok(event) = timeout(wait, listener.next()).await {
                        return event;
                    }
                }
            };
            let event = timeout(Duration::from_secs(120), impatient).await;
            assert!(matches!(event, Ok(ListenerEvent::Established)), "{event:?}");
            drop(listener);
            let sql = "select count(*) from pg_stat_activity \
                       where datname = current_database() and pid <> pg_backend_pid()";
            wait_until_async("its connections are gone", async || {
                shown(&client.query(sql, &[]).await) == "0"
            })
            .await;
        });
    }
}

#[test]
fn a_pooler_is_no_place_to_listen() {
    block_on(async {
        let options = ListenerOptions {
            connection: Options {
                route: Route::Pooler,
                ..Options::default()
            },
            ..ListenerOptions::default()
        };
        let config = config("postgres://amy@localhost/shop");
        let error = Listener::connect(&config, options, ["a"]).await;
        assert_eq!(error.err().unwrap().kind(), ErrorKind::Misuse);
    });
}

/// What a shared connection receives disturbs no query, and reaches its hook.
#[test]
fn other_connections_may_hear_as_well() {
    for postgres in databases() {
        block_on(async {
            let (sender, mut receiver) = ::tokio::sync::mpsc::unbounded_channel();
            let hook = Hook::new(move |notification| drop(sender.send(notification)));
            for on_notification in [None, Some(hook)] {
                let options = Options {
                    on_notification,
                    ..Options::default()
                };
                let client = Client::connect_with(&config(&postgres.url()), options).await;
                let client = client.unwrap();
                client.query("listen a", &[]).await.unwrap();
                let other = connect(&postgres).await;
                let saying = async {
                    for number in 0..100 {
                        notify(&other, "a", &number.to_string()).await;
                        notify(&client, "a", &number.to_string()).await;
                    }
                };
                let asking = async {
                    for tag in 0..500 {
                        let answer = client.query("select $1::int8", &[Value::Int(tag)]).await;
                        assert_eq!(shown(&answer), tag.to_string());
                    }
                };
                ::tokio::join!(saying, asking);
            }
            for _ in 0..200 {
                let notification = timeout(Duration::from_secs(120), receiver.recv()).await;
                assert_eq!(notification.unwrap().unwrap().channel, "a");
            }
        });
    }
}

#[test]
fn blocking_connections_receive_notifications() {
    for postgres in databases() {
        let (sender, said) = std::sync::mpsc::channel();
        let options = Options {
            on_notification: Some(Hook::new(move |notification| {
                drop(sender.send(notification))
            })),
            ..Options::default()
        };
        let config = config(&postgres.url());
        let mut connection = blocking::Connection::connect_with(&config, options).unwrap();
        connection.query("listen a", &[]).unwrap();
        connection.wait(Duration::from_millis(1)).unwrap();
        assert!(said.try_recv().is_err());
        postgres.execute("notify a, 'x'").unwrap();
        let started = Instant::now();
        let heard = loop {
            connection.wait(Duration::from_secs(600)).unwrap();
            if let Ok(heard) = said.try_recv() {
                break heard;
            }
        };
        assert_eq!(heard.payload, "x");
        assert!(started.elapsed() < Duration::from_secs(120));
        postgres
            .execute(
                "select pg_terminate_backend(pid) from pg_stat_activity \
                      where datname = current_database() and pid <> pg_backend_pid()",
            )
            .unwrap();
        let error = loop {
            if let Err(error) = connection.wait(Duration::from_secs(600)) {
                break error;
            }
        };
        assert_eq!(error.sqlstate().unwrap().to_string(), "57P01");
    }
}

/// The attempts fail, and there are pauses between them.
#[test]
fn a_listener_without_a_runtime_does_not_spin() {
    for postgres in databases().into_iter().take(1) {
        let config = config(&postgres.url());
        let options = ListenerOptions::default();
        let mut builder = ::tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let mut listener = runtime
            .block_on(Listener::connect(&config, options, ["goods"]))
            .unwrap();
        drop(runtime);
        let mut lost = || loop {
            match wait_outside(listener.next()) {
                ListenerEvent::Lost(error) => return error,
                ListenerEvent::Established => {}
                event => panic!("{event:?}"),
            }
        };
        // The end of its runtime.
        lost();
        let started = Instant::now();
        for _ in 0..4 {
            let error = lost();
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
        }
        // At least half of 100, 200, 400 and 800 ms.
        assert!(started.elapsed() >= Duration::from_millis(750));
    }
}
