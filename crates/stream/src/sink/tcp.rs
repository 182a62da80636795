//! A TCP connection as sink.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};

use super::Target;

struct Connection(TcpStream);

pub(super) fn connect(address: &str) -> io::Result<Box<dyn Target>> {
    let stream = TcpStream::connect(address)?;
    // Batches are large, or they are small because somebody waits for them.
    stream.set_nodelay(true)?;
    Ok(Box::new(Connection(stream)))
}

impl Target for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        match self.0.shutdown(Shutdown::Write) {
            // The peer was faster; everything had been written.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }
}
