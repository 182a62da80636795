//! The superuser's password, which clients need over TCP.

use std::path::Path;

use crate::admin::{Connection, literal};
use crate::files::PASSWORD;
use crate::identity::Identity;
use crate::names::USER;
use crate::runtime_dir::write_private;
use crate::{Result, digest};

/// Sets a random password of the superuser, and stores it next to the data.
pub(crate) fn set_password(
    folder: &Path,
    session: &mut Connection,
    identity: &Identity,
) -> Result<String> {
    let doing = "setting the password";
    let password = digest::random(16);
    // Set explicitly, regardless of a template's contents, since `pg_hba.conf` requires SCRAM.
    for sql in [
        "SET password_encryption = 'scram-sha-256'".to_owned(),
        format!(
            "ALTER ROLE {USER} LOGIN PASSWORD {} VALID UNTIL 'infinity'",
            literal(&password)
        ),
        "RESET password_encryption".to_owned(),
    ] {
        session
            .query(&sql)
            .map_err(|failure| failure.during(doing))?;
    }
    write_private(&folder.join(PASSWORD), &password, identity)?;
    Ok(password)
}
