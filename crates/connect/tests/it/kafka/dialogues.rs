//! Answers of brokers that real ones give rarely, by the mock cluster of librdkafka; and brokers that
//! demand a password.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use lookaside_stream::{
    Flow, FormatOptions, Identity, InputFormat, OutputFormat, RunOptions, Source,
};
use lookaside_testing::{KafkaBroker, wait_until};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::LIMIT;
use crate::running::{start, try_sink, try_source, unique};

/// Writes numbered events.
fn produce(brokers: &str, topic: &str, first: usize, count: usize) {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .create()
        .unwrap();
    for n in first..first + count {
        let (key, payload) = (format!("k{}", n % 50), format!("{{\"n\":{n}}}"));
        let record = BaseRecord::to(topic).key(&key).payload(&payload);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(LIMIT).unwrap();
}

/// The distinct payloads of a topic, until there are as many.
fn consume(brokers: &str, topic: &str, count: usize) -> HashSet<String> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", unique("reader"))
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let (mut found, begun) = (HashSet::new(), Instant::now());
    while found.len() < count && begun.elapsed() < LIMIT {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            let payload = message.payload().unwrap().to_vec();
            found.insert(String::from_utf8(payload).unwrap());
        }
    }
    found
}

#[test]
fn requests_that_fail_and_leaders_that_move_lose_nothing() {
    use RDKafkaApiKey as Key;
    use RDKafkaRespErr as Code;

    let cluster = MockCluster::new(3).unwrap();
    let brokers = cluster.bootstrap_servers();
    let (input, output) = ("in", "out");
    for topic in [input, output] {
        cluster.create_topic(topic, 4, 3).unwrap();
    }
    produce(&brokers, input, 0, 1000);
    let not_leader = Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    let timed_out = Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT;
    let moved = Code::RD_KAFKA_RESP_ERR_NOT_COORDINATOR;
    let loading = Code::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS;
    let rebalance = Code::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
    let few = Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND;
    let away = Code::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE;
    let errors = |round: usize| {
        cluster.request_errors(Key::FindCoordinator, &[away]);
        cluster.request_errors(Key::JoinGroup, &[rebalance]);
        cluster.request_errors(Key::SyncGroup, &[rebalance]);
        cluster.request_errors(Key::OffsetFetch, &[loading]);
        cluster.request_errors(Key::Produce, &[not_leader, timed_out, few]);
        cluster.request_errors(Key::Fetch, &[not_leader, timed_out]);
        cluster.request_errors(Key::OffsetCommit, &[moved, rebalance, timed_out]);
        cluster.request_errors(Key::Heartbeat, &[rebalance]);
        for partition in 0..4 {
            let leader = Some((round as i32 + partition) % 3 + 1);
            for topic in [input, output] {
                cluster.partition_leader(topic, partition, leader).unwrap();
            }
        }
    };
    errors(0);
    let hosts = brokers.as_str();
    let running = start(
        &format!("kafka://{hosts}/{input}?group=g&commit_interval_ms=50&session.timeout.ms=6000"),
        &format!("kafka://{hosts}/{output}"),
        None,
        Identity,
    );
    for round in 1..=3 {
        running.wait_for_events(round as u64 * 1000);
        errors(round);
        let group = MockCoordinator::Group("g".to_owned());
        cluster.coordinator(group, round as i32 % 3 + 1).unwrap();
        if round == 2 {
            cluster.broker_down(1).unwrap();
            // sleep: clients notice
            thread::sleep(Duration::from_millis(500));
            cluster.broker_up(1).unwrap();
        }
        produce(&brokers, input, round * 1000, 1000);
    }
    running.wait_for_events(4000);
    running.stop();
    // The reader below is not what is tested.
    for key in [
        Key::FindCoordinator,
        Key::JoinGroup,
        Key::SyncGroup,
        Key::OffsetFetch,
        Key::Fetch,
        Key::OffsetCommit,
        Key::Heartbeat,
    ] {
        cluster.clear_request_errors(key);
    }
    assert_eq!(consume(&brokers, output, 4000).len(), 4000);
}

/// An event goes round two topics of a broker that demands a password; a wrong one is named.
fn check_password(broker: &KafkaBroker, options: &[(&str, &str)]) {
    let options: Vec<_> = options
        .iter()
        .map(|(option, value)| format!("{option}={value}"))
        .collect();
    let url = |user: &str, rest: &str| {
        let (address, options) = (broker.address(), options.join("&"));
        format!("kafka://{user}@{address}/{rest}&{options}")
    };
    let user = "app:p%40ss%2Fword";
    for topic in ["in", "out"] {
        // The broker creates it when it is asked for.
        wait_until("the topic exists", || {
            try_sink(&url(user, &format!("{topic}?buffer_max=2097152"))).is_ok()
        });
    }
    let (input, output) = (url(user, "in?group=g"), url(user, "out?key=n"));
    let forth = start(&input, &output, None, Identity);
    let (input, output) = (url(user, "out?group=g"), url(user, "in?key=n"));
    let back = start(&input, &output, None, Identity);
    let first = Flow::new(
        InputFormat::new("json", &FormatOptions::new()).unwrap(),
        OutputFormat::new("json", &FormatOptions::new()).unwrap(),
    );
    let source = Source::new().with_reader("one", &b"{\"n\":1}\n"[..]);
    let sink = try_sink(&url(user, "in?key=n")).unwrap();
    first
        .run(source, vec![Identity], sink, RunOptions::default())
        .unwrap();
    forth.wait_for_events(2);
    back.wait_for_events(1);
    forth.stop();
    back.stop();

    let error = try_source(&url("app:wrong%2Fsecret", "in?group=g"))
        .map(|_| ())
        .unwrap_err();
    let text = format!("{error}; {}", error.hint().unwrap_or_default());
    assert!(text.contains("SASL") && text.contains("correct"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn brokers_demand_a_password() {
    let Some(broker) = KafkaBroker::start(&[
        "auto.create.topics.enable=true",
        "listener.security.protocol.map=\
         BROKER:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        "listener.name.broker.plain.sasl.jaas.config=\
         org.apache.kafka.common.security.plain.PlainLoginModule required \
         user_app=\"p@ss/word\";",
    ]) else {
        return;
    };
    let options = [
        ("sasl.mechanism", "PLAIN"),
        ("security.protocol", "sasl_plaintext"),
    ];
    check_password(&broker, &options);
}

#[cfg(feature = "kafka-tls")]
#[test]
fn brokers_demand_tls_and_scram() {
    let folder = tempfile::tempdir().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, both) = (folder.path().join("ca.pem"), folder.path().join("both.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    let pem = made.signing_key.serialize_pem() + &made.cert.pem();
    std::fs::write(&both, pem).unwrap();
    let Some(broker) = KafkaBroker::start_with_user(
        &[
            "auto.create.topics.enable=true",
            "listener.security.protocol.map=\
             BROKER:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms=SCRAM-SHA-512",
            "listener.name.broker.scram-sha-512.sasl.jaas.config=\
             org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "ssl.keystore.type=PEM",
            &format!("ssl.keystore.location={}", both.display()),
        ],
        "SCRAM-SHA-512=[name=app,password=p@ss/word]",
    ) else {
        return;
    };
    let options = [
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("security.protocol", "sasl_ssl"),
        ("ssl.ca.location", certificate.to_str().unwrap()),
    ];
    check_password(&broker, &options);
    // Without the authority, the certificate is not trusted.
    let url = format!(
        "kafka://app:x@{}/in?group=g&sasl.mechanism=SCRAM-SHA-512&security.protocol=sasl_ssl",
        broker.address()
    );
    let error = try_source(&url).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no broker answers"), "{error}");
}
