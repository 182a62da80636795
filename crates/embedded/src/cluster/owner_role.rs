//! Roles of single databases: each has the name of its database, owns it and its contents, and is
//! dropped with it. Changes that a test makes as such a role, such as `ALTER ROLE … SET`, do not
//! affect other tests.

use super::{Cluster, owner_of};
use crate::admin::{Connection, Failure, identifier, literal};
use crate::names::USER;
use crate::{Error, Result};

/// Whether a role belongs to a single database.
pub(crate) fn is_owner_role(name: &str) -> bool {
    owner_of(name).is_some()
}

impl Cluster {
    /// Creates the role of the next database. It may log in and is not a superuser.
    pub(crate) fn create_role(&self, name: &str) -> Result<()> {
        let password = self.password.as_ref();
        let password = password.map(|password| format!(" PASSWORD '{password}'"));
        let sql = format!(
            "CREATE ROLE {} LOGIN{}",
            identifier(name),
            password.unwrap_or_default()
        );
        self.query("creating the role of a database", &sql)
            .map(drop)
    }

    /// Changes the owner of the contents of a copy of `template` to the copy's own role; they were
    /// owned by the template's role, which has its name. The template itself belongs to the
    /// superuser.
    pub(crate) fn reassign_contents(&self, template: &str, name: &str) -> Result<()> {
        let doing = "giving a database to its role";
        let sql = format!(
            "REASSIGN OWNED BY {} TO {}",
            identifier(template),
            identifier(name)
        );
        let mut session = self.open(name, doing)?;
        let given = session.query(&sql).map(drop);
        given.map_err(|failure| self.explain(failure, doing))
    }

    /// Renames a new template to its final name, and its role as well; the template belongs to the
    /// superuser from then on. Atomic, since it is one query and so one transaction.
    pub(crate) fn name_with_role(&self, making: &str, template: &str) -> Result<()> {
        let (making, template) = (identifier(making), identifier(template));
        let sql = format!(
            "ALTER DATABASE {making} OWNER TO {USER}; ALTER ROLE {making} NOLOGIN; \
             ALTER ROLE {making} RENAME TO {template}; ALTER DATABASE {making} RENAME TO {template}"
        );
        self.query("naming a database", &sql).map(drop)
    }

    /// Drops the role of a database that was dropped. If a clone of the database still needs it, it
    /// is dropped later with the clone; if anything else depends on it, that is an error.
    pub(crate) fn drop_role(&self, name: &str) -> Result<()> {
        let doing = "dropping the role of a database";
        let sql = format!("DROP ROLE IF EXISTS {}", identifier(name));
        match self.query(doing, &sql) {
            // dependent_objects_still_exist
            Err(error) if error.sqlstate() == Some("2BP01") && !self.has_clone(name)? => {
                Err(Error::role_stays(name, error))
            }
            Err(error) if error.sqlstate() != Some("2BP01") => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a role owns a database of this crate.
    fn has_clone(&self, role: &str) -> Result<bool> {
        let sql = format!(
            "SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = {}",
            literal(role)
        );
        let owned = self.query("looking for clones of a database", &sql)?;
        let mut names = owned.iter().flatten().flatten();
        Ok(names.any(|name| owner_of(name).is_some()))
    }

    /// Opens a session as the user that a database was created for.
    pub(crate) fn open_as(&self, user: &str, database: &str, doing: &str) -> Result<Connection> {
        let user = match is_owner_role(user) {
            true => user,
            false => USER,
        };
        Connection::open(&self.socket_folder, self.port, user, database)
            .map_err(|failure| self.explain(failure, doing))
    }
}

/// Sets the role of a session.
pub(crate) fn set_role(session: &mut Connection, role: &str) -> Result<(), Failure> {
    let sql = format!("SET ROLE {}", identifier(role));
    session.query(&sql).map(drop)
}
