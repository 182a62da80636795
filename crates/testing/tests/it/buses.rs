//! A Redis and a NATS start, are stopped, crash, restart, and leave no files or processes.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use lookaside_testing::{NatsServer, RedisServer, WAIT_MAX};

/// Connects, sends PING, and waits for the answer.
fn ping(address: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
    socket.write_all(b"PING\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"PONG\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    socket
}

/// Whether a server that is stopped does not answer.
fn is_silent(socket: &mut TcpStream) -> bool {
    socket.write_all(b"PING\r\n").unwrap();
    let timeout = Duration::from_millis(100);
    socket.set_read_timeout(Some(timeout)).unwrap();
    let error = socket.read(&mut [0]).unwrap_err();
    error.kind() == io::ErrorKind::WouldBlock
}

macro_rules! check {
    ($Server:ident) => {
        let Some(mut server) = $Server::start(&[]) else {
            return;
        };
        let (address, data) = (server.address(), server.data());
        assert_eq!(address, format!("127.0.0.1:{}", server.port()));
        let mut socket = ping(&address);
        server.stop();
        assert!(is_silent(&mut socket));
        server.resume();
        ping(&address);
        server.kill();
        assert!(TcpStream::connect(&address).is_err());
        server.restart();
        ping(&address);
        assert!(data.exists() && !server.log().is_empty());
        drop(server);
        assert!(TcpStream::connect(&address).is_err());
        assert!(!data.parent().unwrap().exists());
    };
}

#[test]
fn a_redis_comes_and_goes() {
    check!(RedisServer);
}

#[test]
fn a_nats_comes_and_goes() {
    check!(NatsServer);
}

#[test]
fn a_server_with_wrong_arguments_is_reported() {
    let Some(_) = RedisServer::shared() else {
        return;
    };
    let started = std::panic::catch_unwind(|| RedisServer::start(&["--databases", "many"]));
    let panic = started.err().expect("it does not start");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("databases"), "{message}");
}
