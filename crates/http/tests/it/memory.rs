//! The memory that clients cost, measured on a server in a separate process, since this one
//! contains clients and other tests.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lookaside_http::{
    BodySink, Io, Listen, Method, Options, Reply, Response, Route, Router, Server,
};

/// The memory limit of an idle connection.
const IDLE_SIZE_MAX: usize = 4 * 1024;

/// The memory limit of eight concurrent uploads, however large they are.
const UPLOADS_SIZE_MAX: usize = 16 * 1024 * 1024;

const UPLOAD_SIZE: usize = 20_000_000;

/// Marks a process of this program as the server.
const VARIABLE: &str = "LOOKASIDE_HTTP_MEMORY_SERVER";

/// The name of the test that runs the server in that process, and does nothing in this one.
const NAME: &str = "memory::a_server_of_its_own";

struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start() -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
            .env(VARIABLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut addresses = lines.filter_map(|line| {
            let line = line.unwrap();
            Some(line.split_once("listens on ")?.1.parse().unwrap())
        });
        let address = addresses.next().expect("the server says where it listens");
        Self { child, address }
    }

    /// The memory that it has, in bytes.
    fn size(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<usize>().unwrap() * 1024
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        let timeout = Some(Duration::from_secs(60));
        stream.set_read_timeout(timeout).unwrap();
        stream
    }

    fn hello(&self, stream: &mut TcpStream) {
        stream
            .write_all(b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n")
            .unwrap();
        assert!(receive(stream).ends_with("hello"));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A small reply.
fn receive(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 1024];
    let size = stream.read(&mut bytes).unwrap();
    String::from_utf8(bytes[..size].to_vec()).unwrap()
}

struct Count(usize);

impl BodySink for Count {
    fn data(&mut self, _io: &mut Io, piece: &[u8]) {
        self.0 += piece.len();
    }

    fn end(self: Box<Self>, reply: Reply<'_>) {
        reply.text(&self.0.to_string());
    }
}

/// Serves until its parent has ended.
#[test]
fn a_server_of_its_own() {
    if env::var_os(VARIABLE).is_none() {
        return;
    }
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    let server = Server::start(options, vec![listen], |_io| {
        let mut router = Router::new(());
        router
            .get("/hello", |(), _, reply| reply.text("hello"))
            .route(Method::Post, "/count", Route::streamed(), |(), _, reply| {
                reply.receive(Box::new(Count(0)));
            })
            .route(Method::Post, "/slow", Route::streamed(), |(), _, reply| {
                let (mut body, deferred) = reply.receive_remote();
                thread::spawn(move || {
                    let mut count = 0;
                    let mut piece = vec![0; 256 * 1024];
                    while let Ok(size @ 1..) = body.read(&mut piece) {
                        count += size;
                        // sleep: the receiver has to be slower than the sender.
                        thread::sleep(Duration::from_millis(2));
                    }
                    let text = count.to_string();
                    deferred.respond(Response::new(200).body(text.into_bytes()));
                });
            });
        router
    });
    let server = server.unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "it listens on {}", server.addresses()[0]).unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn ten_thousand_connections_wait_in_little_memory() {
    const COUNT: usize = 10_000;
    let process = Process::start();
    let mut first: Vec<_> = (0..100).map(|_| process.connect()).collect();
    first.iter_mut().for_each(|stream| process.hello(stream));
    let before = process.size();
    // Each has been answered once, so that it has allocated all that a connection needs.
    let mut streams = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let mut stream = process.connect();
        process.hello(&mut stream);
        streams.push(stream);
    }
    let each = process.size().saturating_sub(before) / COUNT;
    assert!(each <= IDLE_SIZE_MAX, "{each} bytes for each connection");
    // They are all alive.
    for stream in streams.iter_mut().step_by(100) {
        process.hello(stream);
    }
}

#[test]
fn large_uploads_are_not_held_in_memory() {
    for path in ["/count", "/slow"] {
        let process = Process::start();
        process.hello(&mut process.connect());
        let before = process.size();
        let piece = vec![b'x'; 1 << 20];
        let most = thread::scope(|scope| {
            let uploads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let mut stream = process.connect();
                        let head = format!(
                            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {UPLOAD_SIZE}\r\n\r\n"
                        );
                        stream.write_all(head.as_bytes()).unwrap();
                        let mut left = UPLOAD_SIZE;
                        while left > 0 {
                            let size = left.min(piece.len());
                            stream.write_all(&piece[..size]).unwrap();
                            left -= size;
                        }
                        assert!(receive(&mut stream).ends_with(&UPLOAD_SIZE.to_string()));
                    })
                })
                .collect();
            let mut most = 0;
            while uploads.iter().any(|upload| !upload.is_finished()) {
                most = most.max(process.size());
                // sleep: the interval between two samples
                thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let growth = most.saturating_sub(before);
        assert!(growth <= UPLOADS_SIZE_MAX, "{path} takes {growth} bytes");
    }
}
