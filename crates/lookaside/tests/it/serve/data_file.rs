//! A data file of another server, over TLS.

use std::path::Path;

use super::running::{project, serve};
use crate::program::{Project, Said, lookaside};

/// Runs the program in a folder, with these trusted certificates instead of those of the system.
fn query(folder: &Path, trusted: &Path) -> Said {
    let sql = "select name, rack from copy order by name";
    let mut command = lookaside();
    command
        .args(["query", ".", sql, "--format", "csv"])
        .env("SSL_CERT_FILE", trusted)
        .env_remove("SSL_CERT_DIR")
        .current_dir(folder);
    command.output().unwrap().into()
}

#[test]
fn a_table_is_loaded_from_another_server_over_tls() {
    let source = project(
        "[server]\ntls = { cert = 'cert.pem', key = 'key.pem' }\n\
         [lookups.all]\nsql = 'select name, rack from hosts'\nmany = true\n",
    );
    let certify = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        source.write(&format!("{name}.pem"), &made.cert.pem());
        made.signing_key.serialize_pem()
    };
    source.write("key.pem", &certify("cert"));
    certify("other");
    let running = serve(&source, &[]);
    let address = running.address.replace("127.0.0.1", "localhost");
    let config = format!(
        "version = 2\n[[tables]]\nname = 'copy'\ndata_file = 'https://{address}/v1/lookup/all'\n\
         http.headers = {{ Accept = 'text/csv' }}\n"
    );
    let copy = Project::with(&[("knowdb.toml", &config)]);
    // A certificate that is not trusted ends the load.
    query(copy.path(), &source.file("other.pem"))
        .ended(1)
        .err_has(&["/v1/lookup/all", "certificate"]);
    let said = query(copy.path(), &source.file("cert.pem")).ended(0);
    let rows = "name,rack\ndb 1,8\nweb-1,7\nweb-2,7\nweb-3,7\nweb-4,7\n";
    assert_eq!(said.out, rows);
    running.end();
    // The copy is used while the server does not answer.
    let said = query(copy.path(), &source.file("cert.pem")).ended(0);
    assert_eq!(said.out, rows);
}
