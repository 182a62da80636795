//! Connections that end leak nothing.

use std::fs;
use std::time::{Duration, Instant};

use lookaside_client::postgres::{Client, Options, blocking, poll};
use lookaside_testing::{wait_until, wait_until_async};

use super::{NO_CUT, Site};

/// The descriptors of this process that are sockets connected to a port, as the kernel lists them.
fn socket_count(port: u16) -> usize {
    let mut inodes = Vec::new();
    let peer = format!("0100007F:{port:04X}");
    for line in fs::read_to_string("/proc/net/tcp").unwrap().lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        if fields[2] == peer {
            inodes.push(format!("socket:[{}]", fields[9]));
        }
    }
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets
        .filter(|target| {
            inodes
                .iter()
                .any(|inode| target.as_os_str() == inode.as_str())
        })
        .count()
}

fn is_clean(site: &Site) -> bool {
    site.open_count() == 0 && socket_count(site.port) == 0
}

#[track_caller]
fn nothing_is_left(site: &Site) {
    wait_until("all sockets are closed", || is_clean(site));
}

#[test]
fn ten_thousand_connections_leave_no_socket_and_no_task() {
    let site = Site::start(NO_CUT);
    let config = site.config("");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for round in 0..6_000 {
            let client = Client::connect_with(&config, Options::default())
                .await
                .unwrap();
            if round % 2 == 0 {
                client.query("select $1", &[7.into()]).await.unwrap();
            }
        }
    });
    wait_until("all tasks have ended", || {
        runtime.metrics().num_alive_tasks() == 0
    });
    nothing_is_left(&site);
    for _ in 0..3_000 {
        blocking::Connection::connect_with(&config, Options::default()).unwrap();
    }
    for round in 0..1_000 {
        let mut connection =
            poll::Connection::connect(&config, &config.hosts[0], Options::default()).unwrap();
        // Some go in the middle of the log-in.
        while round % 2 == 0 && !connection.is_ready() {
            connection.turn(Instant::now());
        }
    }
    nothing_is_left(&site);
}

#[test]
fn who_gives_up_in_the_middle_leaves_nothing() {
    let site = Site::silent();
    let config = site.config("");
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..200 {
            let connecting = Client::connect_with(&config, Options::default());
            let connected = tokio::time::timeout(Duration::from_millis(5), connecting).await;
            assert!(connected.is_err());
        }
        // Tasks close their sockets as long as the runtime runs. The site may accept some only later.
        wait_until_async("all sockets are closed", async || is_clean(&site)).await;
    });
    nothing_is_left(&site);
}
