#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use lookaside_http::TlsFuzz;

/// A certificate takes longer to make than a session.
static FUZZ: LazyLock<TlsFuzz> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let key = rcgen::KeyPair::generate().expect("there is randomness");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("it is a name");
    let certificate = params.self_signed(&key).expect("the key signs");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("server.crt"), certificate.pem()).expect("the folder is ours");
    fs::write(path("server.key"), key.serialize_pem()).expect("the folder is ours");
    TlsFuzz::new(&path("server.crt"), &path("server.key")).expect("the files are good")
});

// The body is a library function, so that the ordinary tests run it too, on stable.
fuzz_target!(|data: &[u8]| FUZZ.run(data));
