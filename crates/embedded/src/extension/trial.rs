//! Whether a server can create an extension: tried in a scratch server, since a library may crash
//! it, and for a limited time.

use std::time::Duration;

use crate::admin::{identifier, literal};
use crate::{Error, Postgres, Result, Version, VersionRequirement};

use super::select::Selection;

/// How long a statement of a trial may take by default: the largest known script, that of PostGIS,
/// takes a second.
pub(super) const TRIAL_TIMEOUT: Duration = Duration::from_secs(120);

/// How much longer to wait for a cancelled statement: libraries may ignore the cancellation, and
/// scripts may continue after it. After that, the server is stopped.
const TRIAL_GRACE: Duration = Duration::from_secs(5);

/// Creates the extension, and loads each of its libraries. Returns the library that must be in
/// `shared_preload_libraries`, if that is required.
pub(super) fn run(
    name: &str,
    selection: &Selection<'_>,
    version: Version,
    timeout: Duration,
) -> Result<Option<String>> {
    let mut refused = match create(name, selection, version, None, timeout) {
        Ok(()) => return Ok(None),
        Err(error) => error,
    };
    // The server's error, or its log if the library crashed it. Settings of the extension exist
    // only if its library was loaded at the start.
    let said = refused.to_string();
    if said.contains("preload") || said.contains("unrecognized configuration parameter") {
        for library in selection.libraries() {
            match create(name, selection, version, Some(library), timeout) {
                Ok(()) => return Ok(Some(library.to_owned())),
                Err(error) => refused = error,
            }
        }
    }
    Err(Error::extension_does_not_load(name, version, refused))
}

fn create(
    name: &str,
    selection: &Selection<'_>,
    version: Version,
    preload: Option<&str>,
    timeout: Duration,
) -> Result<()> {
    let mut builder = scratch(version)?;
    if let Some(library) = preload {
        builder = builder.setting("shared_preload_libraries", library);
    }
    let db = builder.start()?;
    let execute = |sql: &str| execute(&db, name, sql, timeout);
    execute(&format!("CREATE EXTENSION {} CASCADE", identifier(name)))?;
    for library in selection.libraries() {
        execute(&format!("LOAD {}", literal(&format!("$libdir/{library}"))))?;
    }
    db.close()
}

/// Runs a statement for a limited time. If it takes longer, `db` is unusable and must be dropped.
fn execute(db: &Postgres, name: &str, sql: &str, timeout: Duration) -> Result<()> {
    let set = format!("SET statement_timeout = {}", timeout.as_millis());
    let done = db.execute_within(&format!("{set}; {sql}"), timeout + TRIAL_GRACE);
    done.map_err(|error| match error.sqlstate() {
        // query_canceled
        Some("57014") => Error::extension_too_slow(name, timeout, error),
        _ if error.is_timeout() => Error::extension_too_slow(name, timeout, error),
        _ => error,
    })
}

/// The extensions that a scratch server can create, with their versions. Each is tried in a transaction
/// that is rolled back.
pub(super) fn loadable(version: Version, timeout: Duration) -> Result<Vec<(String, String)>> {
    let db = scratch(version)?.start()?;
    let mut loadable = Vec::new();
    for extension in db.extensions()? {
        let name = identifier(&extension.name);
        let sql = format!("BEGIN; CREATE EXTENSION {name} CASCADE; ROLLBACK");
        let is_created =
            extension.installed.is_some() || execute(&db, &extension.name, &sql, timeout).is_ok();
        if is_created {
            loadable.push((extension.name, extension.version));
        }
    }
    db.close()?;
    Ok(loadable)
}

fn scratch(version: Version) -> Result<crate::Builder> {
    let exactly: VersionRequirement = version.to_string().parse()?;
    Ok(Postgres::builder().version(exactly).fresh_cluster())
}
