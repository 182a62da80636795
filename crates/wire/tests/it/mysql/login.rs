//! Log-ins: what is sent to which server, and what is never sent.

use lookaside_wire::Limits;
use lookaside_wire::mysql::{
    Connection, Credentials, PublicKey, PublicKeyError, Startup, TlsMode, Transport,
};

use super::server::{ERR, MARIADB, MYSQL, OK, check, events, greeting, output, packet};

const PASSED: &str = "Ok { id: #0, ok: { affected: 0, id: 0, status: 0x0002, warnings: 0 } }";

/// MySQL without TLS.
const WITHOUT_TLS: u64 = MYSQL & !(1 << 11);

fn credentials() -> Credentials {
    Credentials::new([7; 20]).password(b"secret")
}

fn connection(startup: Startup<'_>, credentials: Credentials) -> Connection {
    Connection::new(&startup, credentials, Limits::default()).unwrap()
}

/// Sends a greeting, and returns the answer.
fn greeted(connection: &mut Connection, offered: u64, plugin: &str) -> Vec<u8> {
    connection.feed(&greeting(offered, plugin));
    let told = events(connection);
    assert!(told.starts_with("Greeting("), "{told}");
    output(connection)
}

fn switch(sequence: u8, plugin: &str, challenge: &[u8]) -> Vec<u8> {
    packet(
        sequence,
        &[b"\xfe", plugin.as_bytes(), b"\0", challenge].concat(),
    )
}

#[test]
fn the_answer_to_the_greeting_says_all() {
    let attributes = [("a", "b")];
    let startup = Startup::new("amy").database("shop").attributes(&attributes);
    let mut connection = connection(startup, Credentials::new([7; 20]));
    let found = greeted(&mut connection, MARIADB, "mysql_native_password");
    let expected = [
        &b"\x0c\xa2\xbe\x01\0\0\0\x40\x2d"[..],
        &[0; 19],
        b"\x1c\0\0\0amy\0\0shop\0mysql_native_password\0\x04\x01a\x01b",
    ];
    assert_eq!(
        found.escape_ascii().to_string(),
        packet(1, &expected.concat()).escape_ascii().to_string()
    );
    check(&mut connection, &packet(2, OK), PASSED);
    assert!(connection.can_execute_last());
}

#[test]
fn a_plugin_that_nobody_can_is_answered_by_one_that_all_know() {
    for plugin in [
        "auth_gssapi_client",
        "client_ed25519",
        "mysql_clear_password",
        "",
    ] {
        let mut connection = connection(Startup::new("amy"), credentials());
        let found = greeted(&mut connection, MYSQL, plugin);
        let name = b"mysql_native_password\0";
        assert!(
            found.windows(name.len()).any(|window| window == name),
            "{plugin}: {}",
            found.escape_ascii()
        );
        assert!(!found.windows(6).any(|window| window == b"secret"));
    }
}

#[test]
fn tls_begins_behind_its_request() {
    let startup = Startup::new("amy").tls(TlsMode::Require);
    let mut connection = connection(startup, credentials());
    let request = greeted(&mut connection, MYSQL, "caching_sha2_password");
    let expected = [&b"\x05\xaa\xbe\x01\0\0\0\x40\x2d"[..], &[0; 23]].concat();
    assert_eq!(request, packet(1, &expected));
    assert!(connection.wants_tls());
    connection.tls_started().unwrap();
    assert!(!connection.wants_tls());
    let response = output(&mut connection);
    assert_eq!(response[3..][..5], *b"\x02\x05\xaa\xbe\x01");
    // The password is sent in clear text within TLS.
    check(
        &mut connection,
        &packet(3, b"\x01\x04"),
        "Authentication(FullBegun)",
    );
    assert_eq!(output(&mut connection), packet(4, b"secret\0"));
    check(&mut connection, &packet(5, OK), PASSED);
}

#[test]
fn nothing_comes_between_greeting_and_tls() {
    let stuffed = "input at byte 0: bytes were received before TLS was set up; they may have been \
                   injected";
    let startup = Startup::new("amy").tls(TlsMode::Prefer);
    let mut early = connection(startup, credentials());
    early.feed(&greeting(MYSQL, "caching_sha2_password"));
    early.feed(b"\x07");
    early.next_event().unwrap();
    assert!(early.wants_tls());
    assert_eq!(early.tls_started().unwrap_err().to_string(), stuffed);
    check(&mut early, b"", &format!("error: {stuffed}"));
    let mut late = connection(startup, credentials());
    greeted(&mut late, MYSQL, "caching_sha2_password");
    check(&mut late, b"\x07", &format!("error: {stuffed}"));
}

#[test]
fn a_server_without_tls_is_left_or_taken() {
    let startup = Startup::new("amy").tls(TlsMode::Require);
    let mut left = connection(startup, credentials());
    check(
        &mut left,
        &greeting(WITHOUT_TLS, "caching_sha2_password"),
        "error: greeting at byte 0: TLS is required, but the server does not offer it; configure \
         its certificate, or use ssl-mode=PREFERRED",
    );
    assert_eq!(output(&mut left), b"");
    let startup = Startup::new("amy").tls(TlsMode::Prefer);
    let mut taken = connection(startup, credentials());
    greeted(&mut taken, WITHOUT_TLS, "caching_sha2_password");
    assert!(!taken.wants_tls());
    check(&mut taken, &packet(2, OK), PASSED);
}

#[test]
fn the_password_is_never_said_where_somebody_listens() {
    let hidden = "error: AuthMoreData at byte 1: the password must be encrypted: use TLS, or give \
                  the server's public key (`server-public-key-path`), or allow requesting it \
                  (`get-server-public-key=true`)";
    let mut plain = connection(Startup::new("amy"), credentials());
    greeted(&mut plain, MYSQL, "caching_sha2_password");
    check(&mut plain, &packet(2, b"\x01\x04"), hidden);
    assert_eq!(output(&mut plain), b"");
    // MySQL requests this plugin if there is no such account.
    let mut plain = connection(Startup::new("amy"), credentials());
    greeted(&mut plain, MYSQL, "caching_sha2_password");
    check(
        &mut plain,
        &switch(2, "sha256_password", &[65; 21]),
        &hidden.replace("AuthMoreData at byte 1", "AuthSwitchRequest at byte 0"),
    );
    assert_eq!(output(&mut plain), b"");
    let clear = "error: AuthSwitchRequest at byte 0: the server requests the password in clear \
                 text, which is sent only over TLS or a Unix socket, and only if this is allowed";
    let request = switch(2, "mysql_clear_password", b"");
    let socket = Startup::new("amy").transport(Transport::Protected);
    for (startup, credentials) in [
        (Startup::new("amy"), credentials().allow_clear_password()),
        (socket, credentials()),
    ] {
        let mut connection = connection(startup, credentials);
        greeted(&mut connection, MYSQL, "mysql_native_password");
        check(&mut connection, &request, clear);
        assert_eq!(output(&mut connection), b"");
    }
    let mut allowed = connection(socket, credentials().allow_clear_password());
    greeted(&mut allowed, MYSQL, "mysql_native_password");
    check(
        &mut allowed,
        &request,
        "Authentication(Switch(ClearPassword))",
    );
    assert_eq!(output(&mut allowed), packet(3, b"secret\0"));
}

#[test]
fn a_key_is_asked_for_only_where_that_is_allowed() {
    let mut asking = connection(Startup::new("amy"), credentials().ask_public_key());
    greeted(&mut asking, MYSQL, "caching_sha2_password");
    check(
        &mut asking,
        &packet(2, b"\x01\x04"),
        "Authentication(FullBegun)",
    );
    assert_eq!(output(&mut asking), packet(3, b"\x02"));
    check(
        &mut asking,
        &packet(4, b"\x01no key"),
        "error: AuthMoreData at byte 1: the server's public key cannot be used: \
         there is no `-----BEGIN PUBLIC KEY-----` with its base64 and its end",
    );
    // A Unix socket needs no TLS.
    let startup = Startup::new("amy").transport(Transport::Protected);
    let mut socket = connection(startup, credentials().ask_public_key());
    greeted(&mut socket, MYSQL, "caching_sha2_password");
    socket.feed(&switch(2, "sha256_password", &[65; 21]));
    socket.next_event().unwrap();
    assert_eq!(output(&mut socket), packet(3, b"secret\0"));
}

#[test]
fn a_server_may_change_its_mind_a_few_times() {
    let mut connection = connection(Startup::new("amy"), credentials());
    greeted(&mut connection, MARIADB, "mysql_native_password");
    check(
        &mut connection,
        &switch(2, "client_ed25519", &[7; 32]),
        "Authentication(Switch(Ed25519))",
    );
    assert_eq!(output(&mut connection).len(), 4 + 64);
    check(
        &mut connection,
        &switch(4, "mysql_native_password", &[9; 21]),
        "Authentication(Switch(NativePassword))",
    );
    assert_eq!(output(&mut connection).len(), 4 + 20);
    for round in 2..8 {
        let again = switch(2 * round + 2, "caching_sha2_password", &[9; 21]);
        let told = "Authentication(Switch(CachingSha2Password))";
        check(&mut connection, &again, told);
        assert_eq!(output(&mut connection).len(), 4 + 32);
    }
    check(
        &mut connection,
        &switch(18, "caching_sha2_password", &[9; 21]),
        "error: AuthSwitchRequest at byte 1: the server requested more than 8 authentication methods",
    );
}

#[test]
fn what_cannot_be_answered_is_named() {
    for (packet, expected) in [
        (
            packet(2, b"\xfe"),
            "AuthSwitchRequest at byte 1: the account uses mysql_old_password, which is not \
             supported; change it to caching_sha2_password or ed25519",
        ),
        (
            switch(2, "dialog", b""),
            "AuthSwitchRequest at byte 1: the account uses dialog, which is not supported; change \
             it to caching_sha2_password or ed25519",
        ),
        (
            switch(2, "x\x1b[31m", b""),
            "AuthSwitchRequest at byte 1: the account uses a plugin of another name, which is not \
             supported; change it to caching_sha2_password or ed25519",
        ),
        (
            packet(2, b"\xfename"),
            "AuthSwitchRequest at byte 1: a text is not terminated",
        ),
        (
            switch(2, "client_ed25519", &[7; 31]),
            "AuthSwitchRequest at byte 0: the server's challenge is too short",
        ),
        (
            switch(2, "caching_sha2_password", &[7; 19]),
            "AuthSwitchRequest at byte 0: the server's challenge is too short",
        ),
        (
            packet(2, b"\x01\x03"),
            "AuthMoreData at byte 1: it is not allowed at this point of the log-in",
        ),
        (
            packet(2, b"\x02"),
            "packet at byte 0: it is not allowed during the log-in",
        ),
        (
            packet(2, b""),
            "empty packet at byte 0: it is not allowed during the log-in",
        ),
        (
            packet(3, OK),
            "packet at byte 3: packet number 3 was received instead of 2",
        ),
    ] {
        let mut connection = connection(Startup::new("amy"), credentials());
        greeted(&mut connection, MYSQL, "mysql_native_password");
        check(&mut connection, &packet, &format!("error: {expected}"));
    }
}

#[test]
fn a_fast_pass_comes_once() {
    let mut connection = connection(Startup::new("amy"), credentials());
    greeted(&mut connection, MYSQL, "caching_sha2_password");
    check(
        &mut connection,
        &packet(2, b"\x01\x03"),
        "Authentication(FastPassed)",
    );
    check(
        &mut connection,
        &packet(3, b"\x01\x04"),
        "error: AuthMoreData at byte 1: it is not allowed at this point of the log-in",
    );
    assert_eq!(output(&mut connection), b"");
}

#[test]
fn a_peer_that_is_not_a_server_is_reported() {
    for (stream, expected) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            "packet at byte 0: 5526600 bytes are too many before the log-in; is this a MySQL server?",
        ),
        (
            &packet(0, b"\x09old"),
            "greeting at byte 0: 9 is not a version of the handshake that is known; \
             is this a MySQL server?",
        ),
        (
            &greeting(MYSQL & !(1 << 9), ""),
            "greeting at byte 19: the server lacks features that MySQL has since 5.7 and MariaDB since 10.2",
        ),
        (
            &packet(0, b"\x0a9.7"),
            "greeting at byte 1: a text is not terminated",
        ),
        (
            &packet(1, b"\x0a9.7"),
            "packet at byte 3: packet number 1 was received instead of 0",
        ),
    ] {
        let mut connection = connection(Startup::new("amy"), credentials());
        check(&mut connection, stream, &format!("error: {expected}"));
        assert_eq!(output(&mut connection), b"");
    }
}

#[test]
fn a_refusal_is_the_end() {
    // Before the greeting, errors have no SQLSTATE.
    let mut early = connection(Startup::new("amy"), credentials());
    check(
        &mut early,
        &packet(0, b"\xff\x10\x04Too many connections"),
        r#"Fatal { error: 1040 HY000 "Too many connections" }"#,
    );
    check(&mut early, b"", "");
    let mut late = connection(Startup::new("amy"), credentials());
    greeted(&mut late, MYSQL, "caching_sha2_password");
    check(
        &mut late,
        &packet(2, ERR),
        r#"Fatal { error: 1064 42000 "no" }"#,
    );
}

#[test]
fn secrets_are_not_shown() {
    assert_eq!(format!("{:?}", credentials()), "Credentials { .. }");
}

#[test]
fn keys_that_are_none_are_refused() {
    let pem = |base64: &str| {
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n");
        PublicKey::from_pem(pem.as_bytes()).unwrap_err()
    };
    assert_eq!(pem("!"), PublicKeyError::Pem);
    assert_eq!(pem(""), PublicKeyError::Structure);
    // An Ed25519 key, and an RSA key of 512 bits.
    let ed25519 = "MCowBQYDK2VwAyEAO8cKNuSxFOYfziFhY9ua5qKlcwa+V2SjjNgEVcgYBvE=";
    assert_eq!(pem(ed25519), PublicKeyError::Structure);
    let short = "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBALHCV0cCbG4efsvDB8cN3wfk6vc3J9du\
                 2Zp/RLcHVuLWHUCUZyU+Kacz5KWnXnMmVEYznWl9gQI0C/WmdXvqi78CAwEAAQ==";
    assert_eq!(pem(short), PublicKeyError::Size);
    for text in [&b""[..], b"-----BEGIN PUBLIC KEY-----", b"\xff"] {
        assert_eq!(PublicKey::from_pem(text).unwrap_err(), PublicKeyError::Pem);
    }
}
