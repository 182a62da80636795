//! A distant server, made of a near one: a relay that holds bytes back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rival_common::arguments::Arguments;

/// Small against a round trip on a narrow link: 16 KiB are 6.5 ms at 20 Mbit/s.
const CHUNK_SIZE: usize = 16 * 1024;
/// Chunks on their way in one direction; a sender that is further ahead waits.
const CHUNK_COUNT_MAX: usize = 1024;

/// Serves until its input ends.
pub fn run(arguments: &Arguments) -> Result<()> {
    let to = arguments.required("--to")?.to_owned();
    let round_trip: f64 = arguments.number("--rtt-ms")?.unwrap_or(30.0);
    let link = Link {
        delay: Duration::from_secs_f64(round_trip / 2.0 / 1000.0),
        bytes_a_second: arguments
            .number("--mbit")?
            .map(|mbit: f64| mbit * 125_000.0),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for near in listener.incoming() {
            if let Err(error) = near
                .map_err(Into::into)
                .and_then(|near| relay(near, &to, link))
            {
                eprintln!("proxy: {error:#}");
            }
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// One direction of one connection.
#[derive(Clone, Copy)]
struct Link {
    delay: Duration,
    bytes_a_second: Option<f64>,
}

struct Chunk {
    bytes: Vec<u8>,
    due: Instant,
}

fn relay(near: TcpStream, to: &str, link: Link) -> Result<()> {
    let far = TcpStream::connect(to).with_context(|| to.to_owned())?;
    for (from, into) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        into.set_nodelay(true)?;
        let (sender, receiver) = sync_channel(CHUNK_COUNT_MAX);
        std::thread::spawn(move || receive(from, &sender, link));
        std::thread::spawn(move || deliver(into, &receiver));
    }
    Ok(())
}

/// Reads at once and says when the bytes arrive: after those before them, and half a round trip.
fn receive(mut from: TcpStream, sender: &SyncSender<Chunk>, link: Link) {
    let mut free = Instant::now();
    let mut buffer = vec![0; CHUNK_SIZE];
    // A connection that breaks is one that ends.
    while let Ok(size @ 1..) = from.read(&mut buffer) {
        free = free.max(Instant::now());
        if let Some(bytes_a_second) = link.bytes_a_second {
            free += Duration::from_secs_f64(size as f64 / bytes_a_second);
        }
        let chunk = Chunk {
            bytes: buffer[..size].to_vec(),
            due: free + link.delay,
        };
        if sender.send(chunk).is_err() {
            return;
        }
    }
}

fn deliver(mut into: TcpStream, receiver: &Receiver<Chunk>) {
    for chunk in receiver {
        std::thread::sleep(chunk.due.saturating_duration_since(Instant::now()));
        if into.write_all(&chunk.bytes).is_err() {
            break;
        }
    }
    // The other side's end; that it is gone already is as good.
    let _ = into.shutdown(Shutdown::Write);
}
