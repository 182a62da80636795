//! Why `initdb` ends for a user without an entry in `/etc/passwd`, and how the user gets one.

/// What `initdb` says of a user without an entry.
const SAID_BY_INITDB: &str = "could not look up effective user ID";

/// The way out, if `initdb` found no entry.
pub(crate) fn way_out(said: &str) -> Option<String> {
    let uid = rustix::process::geteuid().as_raw();
    said.contains(SAID_BY_INITDB).then(|| {
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
    fn a_failure_names_the_way_out() {
        let said = "initdb: error: could not look up effective user ID 54321: user does not exist";
        let way_out = way_out(said).unwrap();
        assert!(way_out.contains("/etc/passwd"), "{way_out}");
        assert_eq!(super::way_out("initdb: error: no space"), None);
    }
}
