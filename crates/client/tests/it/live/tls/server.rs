//! A PostgreSQL that speaks TLS, and the certificates for it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::Postgres;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};

use super::super::{config, connect, database, shown};

/// Who is who, by the rules of [`HBA`].
pub(crate) const PASSWORD: &str = "s3cret";

const HBA: &str = "\
local all all trust
hostssl all certified 127.0.0.1/32 cert
hostssl all plain_only 127.0.0.1/32 reject
hostnossl all tls_only 127.0.0.1/32 reject
host all all 127.0.0.1/32 scram-sha-256
";

/// An issuer of certificates.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub(crate) struct Pair {
    /// The certificates to trust for it.
    roots: String,
    is_expired: bool,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: params.self_signed(&key).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate made out to hosts.
    pub(crate) fn issue(&self, hosts: &[&str]) -> Pair {
        self.sign(params("server", hosts), false)
    }

    pub(crate) fn issue_expired(&self, hosts: &[&str]) -> Pair {
        let mut params = params("server", hosts);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params, true)
    }

    /// A certificate for a user.
    pub(crate) fn issue_to(&self, user: &str) -> Pair {
        self.sign(params(user, &[]), false)
    }

    fn sign(&self, params: CertificateParams, is_expired: bool) -> Pair {
        let key = KeyPair::generate().unwrap();
        Pair {
            roots: self.pem(),
            is_expired,
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A certificate that is its own issuer and a server's at once, as one call of openssl makes it.
pub(crate) fn self_signed(hosts: &[&str]) -> Pair {
    let mut params = params("server", hosts);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    Pair {
        roots: certificate.clone(),
        is_expired: false,
        certificate,
        key: key.serialize_pem(),
    }
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A server that speaks TLS, with users and rules of its own.
pub(crate) struct Server {
    pub(crate) postgres: Postgres,
    data: PathBuf,
    /// The client's files.
    folder: tempfile::TempDir,
}

impl Server {
    /// With a certificate, and an issuer of those that it takes from clients.
    pub(crate) fn start(version: &str, pair: &Pair, clients: &Authority) -> Option<Self> {
        Some(Self::on(database(version, true)?, pair, clients))
    }

    /// The same on a server that listens on TCP, and is the test's own.
    pub(crate) fn on(postgres: Postgres, pair: &Pair, clients: &Authority) -> Self {
        let answer = connect(&postgres).query("show data_directory", &[]);
        let server = Self {
            data: shown(&answer).into(),
            postgres,
            folder: tempfile::tempdir().unwrap(),
        };
        for user in ["certified", "plain_only", "tls_only", "anybody"] {
            let sql = format!("create role {user} login superuser password '{PASSWORD}'");
            server.postgres.execute(&sql).unwrap();
        }
        server.write("pg_hba.conf", HBA);
        server.write("clients.crt", &clients.pem());
        let set = |name, value| {
            let sql = format!("alter system set {name} = '{value}'");
            server.postgres.execute(&sql).unwrap();
        };
        set("ssl_cert_file", "own.crt");
        set("ssl_key_file", "own.key");
        set("ssl_ca_file", "clients.crt");
        set("ssl", "on");
        server.show(pair);
        server
    }

    /// Has the server show another certificate.
    pub(crate) fn show(&self, pair: &Pair) {
        self.write("own.crt", &pair.certificate);
        self.write("own.key", &pair.key);
        self.postgres.execute("select pg_reload_conf()").unwrap();
        // The server takes its time.
        let roots = setting("sslrootcert", &self.file("shown.crt", &pair.roots));
        let config = config(&(self.url("anybody", "verify-ca") + &roots));
        let started = Instant::now();
        loop {
            match Connection::connect_with(&config, Options::default()) {
                Ok(_) if !pair.is_expired => return,
                Err(error) if pair.is_expired && error.to_string().contains("expired") => return,
                result => {
                    let is_early = started.elapsed() < Duration::from_secs(120);
                    assert!(is_early, "{:?}", result.err());
                }
            }
        }
    }

    /// A file of the server.
    fn write(&self, name: &str, text: &str) {
        let path = self.data.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let owner = fs::metadata(&self.data).unwrap();
        chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }

    /// A file of the client's.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// To a host of the name `db`, wherever it is.
    pub(crate) fn url(&self, user: &str, mode: &str) -> String {
        let (port, database) = (self.postgres.port(), self.postgres.database());
        format!(
            "postgres://{user}:{PASSWORD}@db:{port}/{database}?hostaddr=127.0.0.1&sslmode={mode}"
        )
    }
}

/// The setting that names a file.
pub(crate) fn setting(name: &str, path: &Path) -> String {
    format!("&{name}={}", path.display())
}
