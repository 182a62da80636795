//! Log-ins: every method, every refusal, and all attacks by a malicious server.

use lookaside_wire::postgres::{ChannelBinding, Connection, Credentials, Startup};
use lookaside_wire::{ErrorKind, Limits, RequestId};

use crate::server::{LOGIN, check, error, events, message, messages, output};

const SCRAM: &[u8] = b"\0\0\0\x0aSCRAM-SHA-256\0\0";
const SCRAM_PLUS: &[u8] = b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
const ONLY_PLUS: &[u8] = b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0\0";

/// `[7; 18]` in Base64.
const NONCE: &str = "BwcHBwcHBwcHBwcHBwcHBwcH";

fn credentials() -> Credentials {
    Credentials::new([7; 18]).password(b"secret")
}

fn begin(credentials: Credentials) -> Connection {
    let mut connection =
        Connection::new(&Startup::new("amy"), credentials, Limits::default()).unwrap();
    output(&mut connection);
    connection
}

/// The connection's answer to one Authentication message, or the error.
fn answer(credentials: Credentials, body: &[u8]) -> String {
    let mut connection = begin(credentials);
    connection.feed(&message(b'R', body));
    match connection.next_event() {
        Ok(_) => output(&mut connection).escape_ascii().to_string(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Authentication);
            error.to_string()
        }
    }
}

#[test]
fn a_server_may_trust_us() {
    let mut connection = begin(Credentials::new([7; 18]));
    let stream = messages(&[
        (b'R', b"\0\0\0\0"),
        (b'S', b"server_version\x0018.6\0"),
        (b'K', b"\0\0\0\x2a\0\0\0\x07"),
        (b'Z', b"I"),
    ]);
    check(
        &mut connection,
        &stream,
        r#"
        Authentication(Ok)
        ParameterStatus(ParameterStatus { name: "server_version", value: "18.6" })
        BackendKeyData
        Ready { id: #0, status: Idle }
        "#,
    );
    assert!(output(&mut connection).is_empty());
    assert!(connection.unanswered().is_empty());
    assert_eq!(connection.cancel_key().unwrap().process_id(), 42);
}

#[test]
fn passwords_are_answered_as_they_are_asked_for() {
    for (body, expected) in [
        (&b"\0\0\0\x03"[..], r"p\x00\x00\x00\x0bsecret\x00"),
        (
            b"\0\0\0\x05\x01\x02\x03\x04",
            r"p\x00\x00\x00(md569b0f4fbad30a05817c4e65c950f9ba7\x00",
        ),
        (
            SCRAM,
            r"p\x00\x00\x006SCRAM-SHA-256\x00\x00\x00\x00 n,,n=,r=NONCE",
        ),
    ] {
        let expected = expected.replace("NONCE", NONCE);
        assert_eq!(answer(credentials(), body), expected);
    }
}

#[test]
fn without_a_password_none_is_sent() {
    for body in [&b"\0\0\0\x03"[..], b"\0\0\0\x05\x01\x02\x03\x04", SCRAM] {
        for none in [
            Credentials::new([7; 18]),
            Credentials::new([7; 18]).password(b""),
        ] {
            assert_eq!(
                answer(none, body),
                "Authentication at byte 0: the server requires a password, and none was given"
            );
        }
    }
}

#[test]
fn methods_that_we_do_not_speak_are_named() {
    for (code, name) in [
        (2, "Kerberos V5"),
        (6, "SCM credentials"),
        (7, "GSSAPI"),
        (9, "SSPI"),
    ] {
        let found = answer(credentials(), &[0, 0, 0, code]);
        let expected = format!(
            "Authentication at byte 0: the server requires {name}, which is not supported; use \
             scram-sha-256 in pg_hba.conf"
        );
        assert_eq!(found, expected);
    }
    let found = answer(credentials(), b"\0\0\0\x0aOAUTHBEARER\0\0");
    assert!(found.contains("none of the mechanisms"), "{found}");
    let mut connection = begin(credentials());
    check(
        &mut connection,
        &message(b'R', b"\0\0\0\x63"),
        "error: Authentication at byte 0: 99 is not a valid authentication method",
    );
}

/// The rules of libpq's `channel_binding`, for each value, transport and offer.
#[test]
fn channel_binding_is_used_as_libpq_uses_it() {
    use ChannelBinding::{Disable, Prefer, Require};
    const PLAIN: Option<Option<&[u8]>> = None;
    const TLS: Option<Option<&[u8]>> = Some(Some(b"hash"));
    const TLS_WITHOUT_HASH: Option<Option<&[u8]>> = Some(None);
    let (n, y, p) = (" n,,n=", " y,,n=", "p=tls-server-end-point,,n=");
    let required = "channel binding is required";
    let removed = "it may have been removed by an attacker";
    let unsupported = "none of the mechanisms";
    for (binding, transport, offer, expected) in [
        (Disable, PLAIN, SCRAM, n),
        (Disable, PLAIN, SCRAM_PLUS, removed),
        (Disable, TLS, SCRAM, n),
        (Disable, TLS, SCRAM_PLUS, n),
        (Disable, TLS, ONLY_PLUS, unsupported),
        (Prefer, PLAIN, SCRAM, n),
        (Prefer, PLAIN, SCRAM_PLUS, removed),
        (Prefer, TLS, SCRAM, y),
        (Prefer, TLS, SCRAM_PLUS, p),
        (Prefer, TLS, ONLY_PLUS, p),
        (Prefer, TLS_WITHOUT_HASH, SCRAM, n),
        (Prefer, TLS_WITHOUT_HASH, SCRAM_PLUS, n),
        (Require, PLAIN, SCRAM, required),
        (Require, PLAIN, SCRAM_PLUS, removed),
        (Require, TLS, SCRAM, required),
        (Require, TLS, SCRAM_PLUS, p),
        (Require, TLS_WITHOUT_HASH, SCRAM_PLUS, required),
        (Require, TLS, b"\0\0\0\x00", required),
        (Require, TLS, b"\0\0\0\x03", required),
        (Require, TLS, b"\0\0\0\x05salt", required),
    ] {
        let mut given = credentials().channel_binding(binding);
        if let Some(hash) = transport {
            given = given.tls(hash);
        }
        let found = answer(given, offer);
        let context = format!("{binding:?}, {transport:?}, {}", offer.escape_ascii());
        assert!(found.contains(expected), "{context}: {found}");
        let is_plus = found.contains("SCRAM-SHA-256-PLUS");
        assert_eq!(is_plus, expected == p, "{context}: {found}");
    }
}

/// A complete exchange; its numbers are from a real server, see `testdata`.
fn scram(connection: &mut Connection) {
    let first = format!("\0\0\0\x0br={NONCE}theirs,s=c2FsdHNhbHQ=,i=2");
    connection.feed(&messages(&[(b'R', SCRAM), (b'R', first.as_bytes())]));
    assert!(events(connection).ends_with("]))\n"));
}

#[test]
fn a_server_that_cannot_prove_itself_is_left() {
    let signature = "\0\0\0\x0cv=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for (body, kind, expected) in [
        (
            signature.as_bytes(),
            ErrorKind::Authentication,
            "does not know the password",
        ),
        (
            b"\0\0\0\x0ce=invalid-proof",
            ErrorKind::Authentication,
            "refused the SCRAM proof",
        ),
        // A server could send this without any proof.
        (
            b"\0\0\0\0",
            ErrorKind::Unexpected,
            "at this point of the log-in",
        ),
        (
            b"\0\0\0\x03",
            ErrorKind::Unexpected,
            "at this point of the log-in",
        ),
        (SCRAM, ErrorKind::Unexpected, "at this point of the log-in"),
        (
            b"\0\0\0\x0bx",
            ErrorKind::Unexpected,
            "at this point of the log-in",
        ),
    ] {
        let mut connection = begin(credentials());
        scram(&mut connection);
        connection.feed(&message(b'R', body));
        let error = connection.next_event().unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn the_login_follows_its_order() {
    let trusted = "Authentication(Ok)";
    for (stream, before, expected) in [
        (
            messages(&[(b'Z', b"I")]),
            "",
            "ReadyForQuery at byte 0: it is not allowed during the log-in",
        ),
        (
            messages(&[(b'K', b"\0\0\0\x01\0\0\0\x02")]),
            "",
            "BackendKeyData at byte 0: it is not allowed during the log-in",
        ),
        (
            messages(&[(b'R', b"\0\0\0\0"), (b'R', b"\0\0\0\0")]),
            trusted,
            "Authentication at byte 0: it is not allowed during the log-in",
        ),
        (
            messages(&[(b'R', b"\0\0\0\0"), (b'v', b"\0\x03\0\0\0\0\0\0")]),
            trusted,
            "NegotiateProtocolVersion at byte 0: it is not allowed during the log-in",
        ),
        (
            messages(&[(b'R', b"\0\0\0\0"), (b'A', b"\0\0\0\x01a\0\0")]),
            trusted,
            "NotificationResponse at byte 0: it is not allowed during the log-in",
        ),
        (
            messages(&[(b'R', b"\0\0\0\0"), (b'D', b"\0\0")]),
            trusted,
            "DataRow at byte 0: it is not allowed during the log-in",
        ),
        (
            messages(&[(b'R', b"\0\0\0\x0bx")]),
            "",
            "Authentication at byte 0: it is not allowed at this point of the log-in",
        ),
        (
            messages(&[(b'R', b"\0\0\0\x0cx")]),
            "",
            "Authentication at byte 0: it is not allowed at this point of the log-in",
        ),
        (
            messages(&[(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0")]),
            "",
            "Authentication at byte 18: a text is not terminated",
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
            "",
            "CopyOutResponse at byte 0: 1414811691 bytes are too many before the log-in; \
             is this a PostgreSQL server?",
        ),
    ] {
        let mut connection = begin(credentials());
        check(
            &mut connection,
            &stream,
            &format!("{before}\nerror: {expected}"),
        );
    }
}

#[test]
fn a_refusal_is_fatal_whatever_it_is_called() {
    for severity in ["FATAL", "ERROR"] {
        let mut connection = begin(credentials());
        let refusal = error(severity, "28P01", "no");
        connection.feed(&message(b'R', b"\0\0\0\x03"));
        check(
            &mut connection,
            &refusal,
            &format!(
                r#"
                Authentication(CleartextPassword)
                Fatal {{ error: {{'S': "{severity}", 'V': "{severity}", 'C': "28P01", 'M': "no"}} }}
                "#
            ),
        );
        check(&mut connection, LOGIN, "");
        assert_eq!(connection.unanswered().first(), Some(RequestId::STARTUP));
    }
}

#[test]
fn rounds_of_hashing_have_a_limit() {
    let limits = Limits {
        scram_iteration_count_max: 4096,
        ..Limits::default()
    };
    let mut connection = Connection::new(&Startup::new("amy"), credentials(), limits).unwrap();
    let first = format!("\0\0\0\x0br={NONCE}x,s=c2FsdA==,i=4097");
    connection.feed(&messages(&[(b'R', SCRAM), (b'R', first.as_bytes())]));
    connection.next_event().unwrap();
    let error = connection.next_event().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", credentials().tls(Some(b"hash")));
    assert_eq!(shown, "Credentials { channel_binding: Prefer, .. }");
}
