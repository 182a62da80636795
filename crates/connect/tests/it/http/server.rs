//! An HTTP server that answers by a script.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path and the query.
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, wanted: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        Some(value)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let text = str::from_utf8(&self.body).unwrap();
        assert!(text.ends_with('\n'), "each line has an end: {text:?}");
        text.lines().map(str::to_owned).collect()
    }
}

/// What the server answers.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// How much of the body is sent before the connection is closed.
    cut: Option<usize>,
    /// Whether no byte of an answer is sent.
    is_silent: bool,
}

impl Reply {
    pub(super) fn new(status: u16, body: &str) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
            cut: None,
            is_silent: false,
        }
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn cut_after(mut self, size: usize) -> Self {
        self.cut = Some(size);
        self
    }

    /// No answer: the connection stays open.
    pub(super) fn silence() -> Self {
        Self {
            is_silent: true,
            ..Self::new(200, "")
        }
    }
}

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

/// Below the range that Linux takes the local ports of connections from, so that nothing else takes
/// the port of a server that is stopped.
const PORTS: std::ops::Range<u16> = 10_000..32_768;

/// A server on a port of its own.
pub(super) struct HttpServer {
    port: u16,
    script: Arc<Script>,
    tls: Option<Arc<ServerConfig>>,
    requests: Arc<Mutex<Vec<Request>>>,
    running: Option<Running>,
}

/// The threads of a server.
struct Running {
    is_stopped: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    accepting: JoinHandle<()>,
}

impl HttpServer {
    /// Starts a server that answers each POST by the script, and other methods with 204.
    pub(super) fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(None, move |request| match &*request.method {
            "POST" => script(request),
            _ => Reply::new(204, ""),
        })
    }

    /// Starts a server that answers each request by the script, also by TLS.
    pub(super) fn start_with(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut server = Self {
            port: 0,
            script: Arc::new(script),
            tls,
            requests: Arc::default(),
            running: None,
        };
        let listener = (0..1000).find_map(|_| {
            let port = fastrand::u16(PORTS);
            TcpListener::bind(("127.0.0.1", port)).ok()
        });
        server.accept(listener.expect("a free port"));
        server
    }

    fn accept(&mut self, listener: TcpListener) {
        self.port = listener.local_addr().unwrap().port();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let accepting = {
            let (script, tls) = (Arc::clone(&self.script), self.tls.clone());
            let requests = Arc::clone(&self.requests);
            let (is_stopped, sockets) = (Arc::clone(&is_stopped), Arc::clone(&sockets));
            thread::spawn(move || {
                for socket in listener.incoming() {
                    // Relaxed: the connection that wakes this thread comes after the store.
                    if is_stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    let socket = socket.unwrap();
                    sockets.lock().unwrap().push(socket.try_clone().unwrap());
                    let (script, requests) = (Arc::clone(&script), Arc::clone(&requests));
                    let tls = tls.clone();
                    let other = socket.try_clone().unwrap();
                    let close = move || _ = other.shutdown(Shutdown::Both);
                    thread::spawn(move || match tls {
                        None => serve(socket, close, &*script, &requests),
                        Some(tls) => {
                            let connection = ServerConnection::new(tls).unwrap();
                            let stream = StreamOwned::new(connection, socket);
                            serve(stream, close, &*script, &requests);
                        }
                    });
                }
            })
        };
        self.running = Some(Running {
            is_stopped,
            sockets,
            accepting,
        });
    }

    /// Closes all connections and the port.
    pub(super) fn stop(&mut self) {
        let running = self.running.take().expect("the server is running");
        running.is_stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address());
        running.accepting.join().unwrap();
        for socket in &*running.sockets.lock().unwrap() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Starts it again on the same port.
    pub(super) fn restart(&mut self) {
        self.accept(TcpListener::bind(self.address()).unwrap());
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The requests by POST so far.
    pub(super) fn posts(&self) -> Vec<Request> {
        let requests = self.requests.lock().unwrap();
        let posts = requests.iter().filter(|request| request.method == "POST");
        posts.cloned().collect()
    }
}

/// Answers the requests of a connection.
fn serve(
    stream: impl io::Read + io::Write,
    close: impl Fn(),
    script: &Script,
    requests: &Mutex<Vec<Request>>,
) {
    let mut reader = BufReader::new(stream);
    while let Ok(Some(request)) = read(&mut reader) {
        let reply = script(&request);
        requests.lock().unwrap().push(request.clone());
        if reply.is_silent {
            continue;
        }
        if write(reader.get_mut(), &request, &reply).is_err() || reply.cut.is_some() {
            close();
            return;
        }
    }
}

fn read(reader: &mut BufReader<impl io::Read>) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request {
        method,
        path,
        headers,
        body: Vec::new(),
    };
    let size = request.header("content-length").unwrap_or("0");
    request.body = vec![0; size.parse().unwrap()];
    reader.read_exact(&mut request.body)?;
    Ok(Some(request))
}

fn write(socket: &mut impl io::Write, request: &Request, reply: &Reply) -> io::Result<()> {
    let mut bytes = format!("HTTP/1.1 {} Status\r\n", reply.status).into_bytes();
    for (name, value) in &reply.headers {
        write!(bytes, "{name}: {value}\r\n")?;
    }
    if reply.status != 204 {
        write!(bytes, "content-length: {}\r\n", reply.body.len())?;
    }
    bytes.extend_from_slice(b"\r\n");
    if request.method != "HEAD" {
        bytes.extend_from_slice(&reply.body[..reply.cut.unwrap_or(reply.body.len())]);
    }
    socket.write_all(&bytes)?;
    socket.flush()
}
