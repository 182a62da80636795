//! Detects that `initdb` failed because the user has no entry in `/etc/passwd`, with a hint.

/// The message of `initdb` for a user without an entry.
const INITDB_MESSAGE: &str = "could not look up effective user ID";

/// The hint, if `initdb` found no entry.
pub(crate) fn hint(output: &str) -> Option<String> {
    let uid = rustix::process::geteuid().as_raw();
    output.contains(INITDB_MESSAGE).then(|| {
        format!(
            "give the user an entry when the image is built \
             (`echo 'app:x:{uid}:0::/tmp:/bin/sh' >>/etc/passwd`), or run as a user that has one"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_a_hint() {
        let output =
            "initdb: error: could not look up effective user ID 54321: user does not exist";
        let hint = hint(output).unwrap();
        assert!(hint.contains("/etc/passwd"), "{hint}");
        assert_eq!(super::hint("initdb: error: no space"), None);
    }
}
