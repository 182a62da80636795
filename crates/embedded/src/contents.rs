//! Creates the user and the database of a server if they are missing.

use crate::Result;
use crate::admin::{identifier, literal};
use crate::cluster::Cluster;
use crate::names::{ADMIN_DATABASE, USER};
use crate::schema::Schema;

/// The contents of a cluster before it is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Only the initial contents of every cluster.
    New,
    /// Data of the user.
    Existing,
}

/// Creates user and database if they are missing; a new database gets the schema. In a cluster with
/// existing data, it gets its name only when it is complete.
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

/// Renames the schema template that came with the cluster to the database, and returns whether
/// there is one.
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
