//! A running Kafka broker.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::{Launch, ServerProcess, free_port};

/// Where `scripts/fetch-kafka` puts the jars by default.
const KAFKA_FOLDER: &str = "/var/cache/lookaside/kafka";

/// Initializes the data folder at the first start, and becomes the broker.
const START: &str = r#"
properties=$1
cluster=$2
scram=$3
shift 3
if ! [ -e "${properties%/*}/data/meta.properties" ]; then
    "$@" kafka.tools.StorageTool format -t "$cluster" -c "$properties" ${scram:+--add-scram "$scram"} || exit 1
fi
exec "$@" kafka.Kafka "$properties"
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
///
/// Its log has errors in its properties, and those of Java. The jars do not include a logger, so
/// Kafka's own messages are dropped. After three seconds of [`stop`](ServerProcess::stop), it has to
/// join its cluster again when it is resumed; so has one that is
/// [restarted](ServerProcess::restart), when the session of the killed process has timed out.
pub struct KafkaBroker(ServerProcess);

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
    /// over those that are set here; `{internal}` in a value is the port of the listener `INTERNAL`. `None` as from [`available`](Self::available).
    ///
    /// # Panics
    ///
    /// If the jars are there but the broker does not start; the message contains its log.
    pub fn start(properties: &[&str]) -> Option<Self> {
        Self::start_with_user(properties, "")
    }

    /// As [`start`](Self::start), with credentials of a user, as in
    /// `SCRAM-SHA-512=[name=app,password=secret]`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn start_with_user(properties: &[&str], scram: &str) -> Option<Self> {
        let programs = Programs::find_or_skip()?;
        Some(Self(ServerProcess::start(|folder| {
            programs.prepare(folder, properties, scram)
        })))
    }
}

impl Deref for KafkaBroker {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.0
    }
}

impl DerefMut for KafkaBroker {
    fn deref_mut(&mut self) -> &mut ServerProcess {
        &mut self.0
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

    /// How a broker is started in its folder.
    fn prepare(&self, folder: &Path, properties: &[&str], scram: &str) -> io::Result<Launch> {
        let ports = Ports::find()?;
        let mut settings = settings(folder, ports);
        for property in properties {
            settings.push_str(&property.replace("{internal}", &ports.internal.to_string()));
            settings.push('\n');
        }
        let file = folder.join("server.properties");
        fs::write(&file, settings)?;
        let cluster = new_cluster_id();
        let temporary = format!("-Djava.io.tmpdir={}", folder.display());
        let command: [&OsStr; 14] = [
            "/bin/sh".as_ref(),
            "-c".as_ref(),
            START.as_ref(),
            "sh".as_ref(),
            file.as_ref(),
            cluster.as_ref(),
            scram.as_ref(),
            self.java.as_ref(),
            "-Xmx512m".as_ref(),
            // These halve the processor time of a start, from 4.5 s to 2.3 s.
            "-XX:+UseSerialGC".as_ref(),
            "-XX:TieredStopAtLevel=1".as_ref(),
            // A killed process leaves its files behind, so they have to be in its folder.
            "-XX:-UsePerfData".as_ref(),
            temporary.as_ref(),
            "-cp".as_ref(),
        ];
        let command = command.into_iter().map(OsStr::to_owned);
        Ok(Launch {
            command: command.chain([self.jars.join("*").into()]).collect(),
            port: ports.broker,
            is_ready: Box::new(move || is_member(ports.internal, &cluster)),
        })
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

/// Whether the cluster's metadata names a broker. A broker answers requests for its API
/// versions shortly before that, when clients would be told that there is none.
fn is_member(port: u16, cluster: &str) -> io::Result<bool> {
    /// A Metadata request, version 2, for no topics: size, key, version, correlation id, no
    /// client id, an empty array.
    const REQUEST: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0];
    /// One broker, the id of the cluster and no topics take less than 100 bytes.
    const RESPONSE_SIZE_MAX: u64 = 4096;
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
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
        .windows(cluster.len())
        .any(|part| part == cluster.as_bytes());
    Ok(has_broker && is_ours)
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
