//! The user and the database of a server, made where they are missing.

use crate::Result;
use crate::admin::{identifier, literal};
use crate::cluster::Cluster;
use crate::names::{ADMIN_DATABASE, USER};
use crate::schema::Schema;

/// What a cluster holds before it is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Only what every cluster begins with.
    New,
    /// Data of the user.
    Existing,
}

/// Makes user and database where they are missing; a database that is made, or is new with the whole
/// cluster, gets the schema. Among data of the user it gets its name when it is complete.
pub(crate) fn prepare(
    cluster: &Cluster,
    user: &str,
    database: &str,
    schema: &Schema,
    contents: Contents,
) -> Result<()> {
    if user != USER {
        let name = identifier(user);
        let password = cluster
            .password
            .as_ref()
            .map(|password| format!(" PASSWORD '{password}'"));
        let password = password.unwrap_or_default();
        if !cluster.has_role(user)? {
            cluster.query(
                "creating the user",
                &format!("CREATE ROLE {name} SUPERUSER LOGIN{password}"),
            )?;
        } else if !password.is_empty() {
            cluster.query(
                "setting the password",
                &format!("ALTER ROLE {name}{password}"),
            )?;
        }
    }
    let doing = "looking for the database";
    let sql = format!(
        "SELECT datallowconn FROM pg_database WHERE datname = {}",
        literal(database)
    );
    let found = cluster.query(doing, &sql)?.into_iter().flatten().next();
    if found.is_none() && contents == Contents::New {
        // A cluster that is a copy of a prepared template has one of these already.
        if schema.has_initializers() && take_prepared(cluster, user, database, schema)? {
            return Ok(());
        }
        if take_prepared(cluster, user, database, &schema.extensions())? {
            return schema.after_extensions().apply(cluster, database);
        }
    }
    match (found, contents) {
        (None, Contents::Existing) if !schema.is_empty() => {
            let mut session = cluster.open(ADMIN_DATABASE, doing)?;
            let making = cluster.new_name();
            cluster.create_empty(&making, user)?;
            schema
                .apply(cluster, &making)
                .and_then(|()| cluster.name_database(&making, database, &mut session))
                .inspect_err(|_| {
                    let _ = cluster.drop_database(&making);
                })
        }
        (None, _) => {
            cluster.create_empty(database, user)?;
            schema.apply(cluster, database)
        }
        (Some(_), Contents::New) => schema.apply(cluster, database),
        // An owner died while it copied the database.
        (Some(allowed), Contents::Existing) if allowed.as_deref() == Some("f") => {
            cluster.allow_connections(database, true)
        }
        (Some(_), Contents::Existing) => Ok(()),
    }
}

/// Makes the template of a schema that came with the cluster the database, and says whether there is one.
fn take_prepared(cluster: &Cluster, user: &str, database: &str, schema: &Schema) -> Result<bool> {
    if schema.is_empty() {
        return Ok(false);
    }
    let template = schema.template_name();
    let sql = format!(
        "SELECT 1 FROM pg_database WHERE datname = {}",
        literal(&template)
    );
    if cluster.query("looking for the template", &sql)?.is_empty() {
        return Ok(false);
    }
    cluster.take_template(&template, database, user)?;
    Ok(true)
}
