//! Servers start, crash, restart, and leave no files or processes.

mod buses;
mod kafka;

use std::os::unix::net::UnixStream;

use lookaside_testing::{Brand, Server};

fn check(brand: Brand) {
    let Some(mut server) = Server::start(brand, &[]) else {
        return;
    };
    let (socket, data) = (server.socket(), server.data());
    assert!(UnixStream::connect(&socket).is_ok());
    assert!(
        server
            .url("d")
            .starts_with("mysql://root@localhost/d?socket=/")
    );
    server.kill();
    assert!(UnixStream::connect(&socket).is_err());
    server.start_again();
    assert!(UnixStream::connect(&socket).is_ok());
    drop(server);
    assert!(UnixStream::connect(&socket).is_err());
    assert!(!data.parent().unwrap().exists());
}

#[test]
fn a_mariadb_comes_and_goes() {
    check(Brand::MariaDb);
}

#[test]
fn a_mysql_comes_and_goes() {
    check(Brand::MySql);
}
