//! A broker starts, is stopped, crashes, restarts, and leaves no files or processes.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use lookaside_testing::{KafkaBroker, WAIT_MAX};

const CORRELATION_ID: [u8; 4] = [1, 2, 3, 4];

/// Connects and sends an ApiVersions request, version 0: size, key, version, correlation id, no
/// client id.
fn ask(broker: &KafkaBroker) -> TcpStream {
    let mut socket = TcpStream::connect(broker.address()).unwrap();
    let [a, b, c, d] = CORRELATION_ID;
    let request = [0, 0, 0, 10, 0, 18, 0, 0, a, b, c, d, 0xff, 0xff];
    socket.write_all(&request).unwrap();
    socket
}

/// Reads the begin of the answer: size, correlation id, no error.
fn check_answer(socket: &mut TcpStream) {
    socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
    let mut answer = [0; 10];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], CORRELATION_ID);
    assert_eq!(answer[8..], [0, 0]);
}

#[test]
fn a_kafka_comes_and_goes() {
    let Some(mut broker) = KafkaBroker::start(&["auto.create.topics.enable=true"]) else {
        return;
    };
    let (address, data) = (broker.address(), broker.data());
    assert_eq!(address, format!("127.0.0.1:{}", broker.port()));
    check_answer(&mut ask(&broker));

    broker.stop();
    let mut socket = ask(&broker);
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let error = socket.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    broker.resume();
    check_answer(&mut socket);

    broker.kill();
    assert!(TcpStream::connect(&address).is_err());
    broker.restart();
    assert_eq!(broker.address(), address);
    check_answer(&mut ask(&broker));

    drop(broker);
    assert!(TcpStream::connect(&address).is_err());
    assert!(!data.parent().unwrap().exists());
}

/// The message comes from the tool that initializes the data folder.
#[test]
fn a_kafka_with_wrong_properties_is_reported() {
    if KafkaBroker::available().is_none() {
        return;
    }
    let started = std::panic::catch_unwind(|| KafkaBroker::start(&["num.partitions=many"]));
    let panic = started.err().expect("it does not start");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("num.partitions"), "{message}");
}
