//! Whether a server can create an extension: tried in a scratch server, which a library that crashes
//! takes along.

use crate::admin::{identifier, literal};
use crate::{Error, Postgres, Result, Version, VersionRequirement};

use super::select::Selection;

/// Creates the extension, and loads each of its libraries. What `shared_preload_libraries` must name,
/// if it works only so.
pub(super) fn run(
    name: &str,
    selection: &Selection<'_>,
    version: Version,
) -> Result<Option<String>> {
    let mut refused = match create(name, selection, version, None) {
        Ok(()) => return Ok(None),
        Err(error) => error,
    };
    // What the server says, or its log if the library ended it. Settings of the extension are there
    // only when its library was loaded at the start.
    let said = refused.to_string();
    if said.contains("preload") || said.contains("unrecognized configuration parameter") {
        for library in selection.libraries() {
            match create(name, selection, version, Some(library)) {
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
) -> Result<()> {
    let mut builder = scratch(version)?;
    if let Some(library) = preload {
        builder = builder.setting("shared_preload_libraries", library);
    }
    let db = builder.start()?;
    db.execute(&format!("CREATE EXTENSION {} CASCADE", identifier(name)))?;
    for library in selection.libraries() {
        db.execute(&format!("LOAD {}", literal(&format!("$libdir/{library}"))))?;
    }
    db.close()
}

/// The extensions that a scratch server can create, with their versions. Each is tried in a transaction
/// that is rolled back.
pub(super) fn loadable(version: Version) -> Result<Vec<(String, String)>> {
    let db = scratch(version)?.start()?;
    let mut loadable = Vec::new();
    for extension in db.extensions()? {
        let name = identifier(&extension.name);
        let is_created = extension.installed.is_some()
            || db
                .execute(&format!("BEGIN; CREATE EXTENSION {name} CASCADE; ROLLBACK"))
                .is_ok();
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
