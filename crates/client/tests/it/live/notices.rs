//! What a server remarks.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use lookaside_client::Request;
use lookaside_client::postgres::{Client, Hook, Options, blocking, poll};
use rustix::event::{PollFd, PollFlags};

use super::tokio::block_on;
use super::{config, databases};

const REMARK: &str = "do $$ begin raise notice 'one'; raise warning 'two'; end $$";

/// Options with a hook, and what it heard.
fn hooked() -> (Options, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let heard = Arc::clone(&heard);
        Hook::new(
            move |notice: lookaside_client::postgres::ErrorResponse<'static>| {
                let message = notice.message().unwrap().into_owned();
                heard.lock().unwrap().push(message);
            },
        )
    };
    let options = Options {
        on_notice: Some(hook),
        ..Options::default()
    };
    (options, heard)
}

#[test]
fn each_api_receives_notices() {
    for postgres in databases() {
        let config = config(&postgres.url());
        let (options, heard) = hooked();
        block_on(async {
            let client = Client::connect_with(&config, options).await.unwrap();
            client.query(REMARK, &[]).await.unwrap();
            client.script(REMARK, 0).await.unwrap();
        });
        assert_eq!(*heard.lock().unwrap(), ["one", "two", "one", "two"]);

        let (options, heard) = hooked();
        let mut connection = blocking::Connection::connect_with(&config, options).unwrap();
        connection.query(REMARK, &[]).unwrap();
        assert_eq!(*heard.lock().unwrap(), ["one", "two"]);
        assert_eq!(connection.take_notices().iter().len(), 0);

        let host = &config.hosts[0];
        let connected = poll::Connection::connect(&config, host, Options::default());
        let mut connection = connected.unwrap();
        connection.submit(Request::new(REMARK, &[])).unwrap();
        while connection.next_reply().is_none() {
            connection.turn(Instant::now());
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, connection.wants_write());
            let patience = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            rustix::event::poll(&mut [PollFd::new(&connection, flags)], Some(&patience)).unwrap();
        }
        let notices = connection.take_notices();
        let messages = notices.iter().map(|notice| notice.message().unwrap());
        assert_eq!(messages.collect::<Vec<_>>(), ["one", "two"]);
    }
}
