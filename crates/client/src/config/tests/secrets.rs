//! Passwords are never displayed.

use crate::{Config, Environment};

/// Characters with a special meaning in URLs, and others.
const LETTERS: &[u8] = b"@:/?#&=%[],+ .aZ9-_~";

/// Passwords as people paste them, without encoding: such a URL may be misparsed, but the error
/// never contains the password.
#[test]
fn no_error_quotes_a_piece_of_a_password() {
    let mut rng = fastrand::Rng::with_seed(4);
    let environment = Environment::empty().with("USER", "me");
    let mut error_count = 0;
    for _ in 0..20_000 {
        let mut password = String::new();
        for piece in ["hunter", "tiger", "sesame"] {
            password.push_str(piece);
            for _ in 0..rng.usize(0..3) {
                password.push(char::from(LETTERS[rng.usize(0..LETTERS.len())]));
            }
        }
        for (scheme, is_setting) in [
            ("postgres", false),
            ("postgres", true),
            ("mysql", false),
            ("mysql", true),
        ] {
            let url = if is_setting {
                format!("{scheme}://db:5432/geo?password={password}&user=x")
            } else {
                format!("{scheme}://user:{password}@db:5432/geo?user=x")
            };
            let Err(error) = Config::parse(&url, &environment) else {
                continue;
            };
            error_count += 1;
            let said = format!("{error} {error:?}");
            for piece in ["hunter", "tiger", "sesame"] {
                assert!(!said.contains(piece), "{url}: {said}");
            }
        }
    }
    assert!(error_count > 10_000, "{error_count}");
}

#[test]
fn a_password_is_not_shown() {
    let environment = Environment::empty()
        .with("USER", "me")
        .with("PGPASSWORD", "hunter2");
    for url in [
        "postgres://u:hunter2@h/d",
        "postgres://h/d?password=hunter2",
        "postgres://h/d",
        "mysql://u:hunter2@h/d",
    ] {
        let config = Config::parse(url, &environment).unwrap();
        let shown = format!("{config} {config:?} {environment:?}");
        assert!(
            !shown.contains("hunter2") && shown.contains("***"),
            "{shown}"
        );
    }
    // URLs without a scheme.
    for url in ["u:hunter2@h/d", "hunter2://u@h", "u:hunter2@h://d"] {
        let error = Config::parse(url, &environment).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
