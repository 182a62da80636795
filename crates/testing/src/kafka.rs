//! A running Kafka broker.

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::install::as_ordinary_user;
use crate::server::new_folder;
use crate::wait::{WAIT_MAX, wait_until};

/// Where `scripts/fetch-kafka` puts the jars by default.
const KAFKA_FOLDER: &str = "/var/cache/lookaside/kafka";

/// Below the range that Linux takes the local ports of connections from. Otherwise another
/// connection could take the port of a broker that is down, and a client that tries to reconnect
/// could be given that port and connect to itself.
const PORTS: std::ops::Range<u16> = 10_000..32_768;

/// Initializes the data folder and starts the broker; kills it after a line `kill`, starts it after
/// a line `start`, sends it the signal that another line names, and ends when the pipe is closed,
/// also by the death of the process at its other end. Only that may end it, so it ignores the
/// signals of a terminal.
///
/// There is a file `pid` while a broker should run. A killed broker is waited for, so that its
/// process is gone only after its ports are free.
const HOLDER: &str = r#"
trap '' INT TERM HUP
folder=$1
cluster=$2
shift 2
start() {
    "$@" kafka.Kafka "$folder/server.properties" >>"$folder/log" 2>&1 &
    broker=$!
    echo $broker >"$folder/pid"
}
"$@" kafka.tools.StorageTool format -t "$cluster" -c "$folder/server.properties" \
    >>"$folder/log" 2>&1 || set -- false
start "$@"
while read -r word; do
    case $word in
    start) start "$@" ;;
    kill)
        rm -f "$folder/pid"
        kill -9 $broker
        wait $broker
        broker=
        ;;
    *) kill "-$word" $broker ;;
    esac
done
kill -9 $broker
wait
rm -rf "$folder"
"#;

/// The folder with Kafka's jars: `LOOKASIDE_KAFKA`, or the default of `scripts/fetch-kafka`.
pub fn kafka_folder() -> PathBuf {
    env::var_os("LOOKASIDE_KAFKA").map_or_else(|| KAFKA_FOLDER.into(), PathBuf::from)
}

/// A private broker without topics, which is also the controller of its cluster.
///
/// The listener for clients is named `BROKER`, and the broker itself uses another one. So the
/// properties `listener.security.protocol.map` and `listener.name.broker.…` can require TLS or
/// SASL of clients.
pub struct KafkaBroker {
    folder: PathBuf,
    ports: Ports,
    cluster: String,
    holder: Child,
    orders: Option<ChildStdin>,
}

/// The ports of the listeners.
#[derive(Clone, Copy)]
struct Ports {
    broker: u16,
    internal: u16,
    controller: u16,
}

/// What a broker is started from.
struct Programs {
    java: PathBuf,
    jars: PathBuf,
}

impl KafkaBroker {
    /// The broker that all tests of this process share, or `None` as [`start`](Self::start)
    /// returns it.
    pub fn shared() -> Option<&'static Self> {
        static BROKER: OnceLock<Option<KafkaBroker>> = OnceLock::new();
        BROKER.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// The folder with the jars, or `None`, with a SKIP message, if they or Java are missing.
    pub fn available() -> Option<PathBuf> {
        Programs::find_or_skip().map(|programs| programs.jars)
    }

    /// Starts a separate broker with further properties, each `name=value`, which take precedence
    /// over those that are set here. `None` as from [`available`](Self::available).
    ///
    /// # Panics
    ///
    /// If the jars are there but the broker does not start; the message contains its log.
    pub fn start(properties: &[&str]) -> Option<Self> {
        let programs = Programs::find_or_skip()?;
        // Another process may take a port before the broker does.
        const ATTEMPT_COUNT: usize = 3;
        let mut log = String::new();
        for _ in 0..ATTEMPT_COUNT {
            match Self::launch(&programs, properties) {
                Ok(broker) => return Some(broker),
                Err(failed) => log = failed,
            }
        }
        panic!("Kafka does not start: {log}")
    }

    /// Starts the broker in a new folder; the error is the reason and its log.
    fn launch(programs: &Programs, properties: &[&str]) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let ports = Ports::find().map_err(said)?;
        let folder = new_folder();
        let mut settings = settings(&folder, ports);
        for property in properties {
            settings.push_str(property);
            settings.push('\n');
        }
        fs::write(folder.join("server.properties"), settings).map_err(said)?;
        let cluster = new_cluster_id();
        let mut holder = as_ordinary_user(Path::new("/bin/sh"))
            .args(["-c", HOLDER, "sh"])
            .arg(&folder)
            .arg(&cluster)
            .arg(&programs.java)
            // The last two halve the processor time of a start, from 4.5 s to 2.3 s.
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            // A killed process leaves its files behind, so they have to be in its folder.
            .arg("-XX:-UsePerfData")
            .arg(format!("-Djava.io.tmpdir={}", folder.display()))
            .arg("-cp")
            .arg(programs.jars.join("*"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(said)?;
        let orders = holder.stdin.take();
        let broker = Self {
            folder,
            ports,
            cluster,
            holder,
            orders,
        };
        broker.wait().map(|()| broker)
    }

    /// Waits until the broker is a member of its cluster; the error is the reason and its log.
    fn wait(&self) -> Result<(), String> {
        let deadline = Instant::now() + WAIT_MAX;
        while !self.is_member().unwrap_or(false) {
            let reason = if self.has_ended() {
                let is_initialized = self.data().join("meta.properties").exists();
                // Other ports would not help.
                assert!(is_initialized, "Kafka does not start:\n{}", self.log());
                "the process ended"
            } else if Instant::now() > deadline {
                "it is not ready in time"
            } else {
                // sleep: polls until a deadline; the error contains the log
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            return Err(format!("{reason}:\n{}", self.log()));
        }
        Ok(())
    }

    /// Whether the cluster's metadata names a broker. A broker answers requests for its API
    /// versions shortly before that, when clients would be told that there is none.
    fn is_member(&self) -> io::Result<bool> {
        /// A Metadata request, version 2, for no topics: size, key, version, correlation id, no
        /// client id, an empty array.
        const REQUEST: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0];
        /// One broker, the id of the cluster and no topics take less than 100 bytes.
        const RESPONSE_SIZE_MAX: u64 = 4096;
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports.internal))?;
        // Connections are accepted long before they are served.
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket.write_all(&REQUEST)?;
        let mut size = [0; 4];
        socket.read_exact(&mut size)?;
        let size = u64::from(u32::from_be_bytes(size)).min(RESPONSE_SIZE_MAX);
        let mut response = Vec::new();
        socket.take(size).read_to_end(&mut response)?;
        // After the correlation id.
        let has_broker = response.get(4..8).is_some_and(|count| count != [0; 4]);
        // The port may belong to the broker of another test, and this one is about to end.
        let is_ours = response
            .windows(self.cluster.len())
            .any(|part| part == self.cluster.as_bytes());
        Ok(has_broker && is_ours)
    }

    /// The address for clients, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.broker)
    }

    /// Its port for clients on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.ports.broker
    }

    /// Its data folder, with a folder for each partition.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What it has written to its log: errors in its properties, and those of Java. The jars do not
    /// include a logger, so Kafka's own messages are dropped.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills the broker by SIGKILL, as a crash would, also one that is stopped. Afterwards its
    /// ports refuse connections.
    pub fn kill(&mut self) {
        let Some(pid) = self.pid() else {
            return;
        };
        self.order("kill");
        wait_until("the broker is gone", || task_states(pid).is_empty());
    }

    /// Stops the process by SIGSTOP, as a pause or a lost network would: its port accepts
    /// connections, and nothing answers. After three seconds the broker has to join its cluster
    /// again when it is resumed.
    pub fn stop(&mut self) {
        self.order("STOP");
        self.wait_for_states("the broker is stopped", |state| state == 'T');
    }

    /// Continues the process by SIGCONT after [`stop`](Self::stop).
    pub fn resume(&mut self) {
        self.order("CONT");
        self.wait_for_states("the broker is resumed", |state| state != 'T');
    }

    /// Starts the broker again after [`kill`](Self::kill), on the same ports with the same data. A
    /// running broker is killed first. It joins its cluster when the session of the killed process
    /// has timed out, after three seconds.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        self.order("start");
        self.wait()
            .unwrap_or_else(|error| panic!("Kafka does not start again: {error}"));
    }

    fn order(&mut self, word: &str) {
        let orders = self
            .orders
            .as_mut()
            .expect("the pipe is open until the end");
        writeln!(orders, "{word}").expect("the holder reads until the end");
    }

    /// The process, unless it has not been started yet or was killed.
    fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(self.folder.join("pid")).ok()?;
        // The file is empty for a moment.
        text.trim().parse().ok()
    }

    /// Whether the process ended by itself.
    fn has_ended(&self) -> bool {
        self.pid()
            .is_some_and(|pid| task_states(pid).into_iter().all(|state| state == 'Z'))
    }

    fn wait_for_states(&self, what: &str, is_meant: impl Fn(char) -> bool) {
        let pid = self.pid().expect("the broker was not killed");
        wait_until(what, || {
            let states = task_states(pid);
            assert!(!states.is_empty(), "the broker has ended");
            states.into_iter().all(&is_meant)
        });
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.holder.wait();
    }
}

impl Programs {
    fn find_or_skip() -> Option<Self> {
        match Self::find() {
            Ok(programs) => Some(programs),
            Err(missing) => {
                // Bypasses the test harness, which hides the output of passing tests.
                let _ = writeln!(io::stderr(), "SKIP no Kafka to test with: {missing}");
                None
            }
        }
    }

    /// Finds the programs; the error states what is missing.
    fn find() -> Result<Self, String> {
        let jars = kafka_folder().join("libs");
        let has_broker = fs::read_dir(&jars).is_ok_and(|files| {
            files
                .flatten()
                .any(|file| file.file_name().as_encoded_bytes().starts_with(b"kafka_"))
        });
        if !has_broker {
            return Err(format!(
                "no broker in {}: run `scripts/fetch-kafka`, or name a folder made by it in \
                 LOOKASIDE_KAFKA",
                jars.display()
            ));
        }
        let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
        let path = env::var_os("PATH").unwrap_or_default();
        let java = home
            .into_iter()
            .chain(env::split_paths(&path))
            .map(|folder| folder.join("java"))
            .find(|program| program.is_file())
            .ok_or("no `java`: install Debian's `default-jre-headless`, or as it is called")?;
        Ok(Self { java, jars })
    }
}

impl Ports {
    /// Finds ports that are free at the moment.
    fn find() -> io::Result<Self> {
        // They are held together, so that they differ.
        let [a, b, c] = [free_port()?, free_port()?, free_port()?];
        Ok(Self {
            broker: a.local_addr()?.port(),
            internal: b.local_addr()?.port(),
            controller: c.local_addr()?.port(),
        })
    }
}

fn free_port() -> io::Result<TcpListener> {
    const ATTEMPT_COUNT: usize = 1000;
    (0..ATTEMPT_COUNT)
        .find_map(|_| TcpListener::bind(("127.0.0.1", fastrand::u16(PORTS))).ok())
        .ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

/// The properties of a cluster of one broker. What is small starts faster.
fn settings(folder: &Path, ports: Ports) -> String {
    let Ports {
        broker,
        internal,
        controller,
    } = ports;
    let data = folder.join("data");
    let data = data.display();
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=BROKER://127.0.0.1:{broker},INTERNAL://127.0.0.1:{internal},\
         CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=BROKER://127.0.0.1:{broker},INTERNAL://127.0.0.1:{internal}\n\
         listener.security.protocol.map=\
         BROKER:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=INTERNAL\n\
         controller.listener.names=CONTROLLER\n\
         log.dirs={data}\n\
         # A restarted broker joins only when the session of the killed one has timed out.\n\
         broker.session.timeout.ms=3000\n\
         broker.heartbeat.interval.ms=300\n\
         num.partitions=1\n\
         auto.create.topics.enable=false\n\
         default.replication.factor=1\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=2\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=2\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         share.coordinator.state.topic.num.partitions=1\n\
         # Tests of consumers that fail do not wait for the times that suit production.\n\
         group.initial.rebalance.delay.ms=0\n\
         group.min.session.timeout.ms=1000\n\
         transaction.abort.timed.out.transaction.cleanup.interval.ms=500\n\
         # The default is 128 MB, allocated at the start.\n\
         log.cleaner.dedupe.buffer.size=4194304\n"
    )
}

/// A random UUID as Kafka writes them: 16 bytes in base64 without padding, so the last of the 22
/// characters carries two bits.
fn new_cluster_id() -> String {
    let mut id: String = (0..21).map(|_| fastrand::alphanumeric()).collect();
    id.push('A');
    id
}

/// The states of a process's threads, as letters of Linux; empty if there is no such process.
fn task_states(pid: u32) -> Vec<char> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        // A thread may end in the meantime.
        .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
        // The name before it is in parentheses, and may contain some.
        .filter_map(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next())
        .collect()
}
