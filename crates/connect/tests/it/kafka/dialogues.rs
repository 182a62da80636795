//! Brokers that demand a password.

use lookaside_stream::{
    Flow, FormatOptions, Identity, InputFormat, OutputFormat, RunOptions, Source,
};
use lookaside_testing::{KafkaBroker, wait_until};

use crate::running::{start, try_sink, try_source};

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
