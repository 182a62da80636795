//! Templates with a prepared database: it has extensions, or was filled by the caller's code, such
//! as a migrator.
//!
//! Such a template is a copy of the one that `initdb` made, in which a private server ran the work
//! once. It is kept in the cache under a key of its contents, or for the caller's code under the
//! caller's key, and servers with such databases begin as copies of it; other contents use other
//! servers. So changes of the code to the whole server, such as `CREATE ROLE`, are in the copies as
//! well, and in no other server.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::admin::Connection;
use crate::cluster::{Address, Cluster, DatabaseKind, DatabaseOwner, ServerHandle};
use crate::cluster_options::ClusterOptions;
use crate::file_manifest::FileManifest;
use crate::files::{DATA, LOCK, LOG, PASSWORD, PORT};
use crate::names::USER;
use crate::password::set_password;
use crate::runtime_dir::make_private;
use crate::schema::Schema;
use crate::server::{Listen, OnOwnerExit, Server, Spec};
use crate::settings::temporary_settings;
use crate::{Error, Result, digest};

use super::{BuildContext, Template};

/// Settings that delay each session at its beginning, so that a debugger can be attached.
const DELAYS: [&str; 2] = ["pre_auth_delay", "post_auth_delay"];

/// The recipe of a template with a prepared database.
#[derive(Clone, Debug)]
pub(crate) struct Preparation {
    base: Template,
    schema: Schema,
    options: ClusterOptions,
    /// The stamp of files outside of the schema that it depends on.
    stamp: String,
}

impl Preparation {
    pub(crate) fn new(
        base: &Template,
        schema: &Schema,
        options: &ClusterOptions,
        stamp: String,
    ) -> Self {
        Self {
            base: base.clone(),
            schema: schema.clone(),
            options: options.clone(),
            stamp,
        }
    }

    /// The template's key: the original, the contents, and the settings of the server that makes
    /// it.
    pub(super) fn key(&self) -> String {
        let mut text = self.schema.digest();
        for (name, value) in &self.options.settings {
            text.extend(["\0", name, "\0", value]);
        }
        text.push_str(&self.stamp);
        format!("{}-{}", self.base.key(), digest::of(text.as_bytes()))
    }

    /// Makes the template in `folder`, with a private server. If this process dies, the server
    /// ends, and the folder never gets its final name.
    pub(super) fn fill(&self, folder: &Path, context: BuildContext<'_>) -> Result<()> {
        let data = folder.join(DATA);
        self.base.copy_or_repair(&data, context)?;
        let socket_folder = context.runtime_dir.socket_folder(folder);
        make_private(&socket_folder, context.identity)?;
        let filled = self.run_server(folder, &socket_folder, context);
        // Checked before an error of the run is returned: a delay can be its cause.
        let filled = self
            .refuse_delays(&data)
            .and(filled)
            .and_then(|()| self.try_server(folder, &socket_folder, context));
        let _ = fs::remove_dir_all(&socket_folder);
        filled?;
        for name in [PASSWORD, PORT, LOG, "data/postmaster.opts"] {
            let _ = fs::remove_file(folder.join(name));
        }
        FileManifest::of(&data)?.write(folder)
    }

    /// Returns an error for contents that delay each session at its beginning. Otherwise, they
    /// would appear as slow starts without a visible cause.
    fn refuse_delays(&self, data: &Path) -> Result<()> {
        let Some(label) = self.schema.label() else {
            return Ok(());
        };
        let text = fs::read_to_string(data.join("postgresql.auto.conf")).unwrap_or_default();
        match delay_of(&text) {
            Some(name) => Err(Error::template_delays_sessions(&label, name)),
            None => Ok(()),
        }
    }

    /// Starts a server on the result, and connects like the users of its databases: the contents
    /// may have changed the configuration so that no server starts, or have a login trigger that
    /// refuses sessions; then every later start would fail without a visible cause.
    fn try_server(
        &self,
        folder: &Path,
        socket_folder: &Path,
        context: BuildContext<'_>,
    ) -> Result<()> {
        let Some(label) = self.schema.label() else {
            return Ok(());
        };
        let unusable = |error| Error::template_is_unusable(&label, error);
        let started = self.start_server(folder, socket_folder, context);
        let cluster = started.and_then(|(server, session)| {
            self.cluster_of(server, session, folder, socket_folder, context)
        });
        let cluster = cluster.map_err(unusable)?;
        let entered = self.enter_copy(&cluster);
        cluster.end_and_wait()?;
        entered.map_err(|error| Error::template_refuses_sessions(&label, error))
    }

    /// Opens a session on a copy of the database, by its user.
    fn enter_copy(&self, cluster: &Cluster) -> Result<()> {
        let kind = DatabaseKind {
            template: self.schema.template_name(),
            owner: self.schema.owner,
        };
        let database = cluster.take_database(&kind, 0)?;
        let user = match kind.owner {
            DatabaseOwner::Superuser => USER,
            DatabaseOwner::Role => &database,
        };
        let entered = cluster.open_as(user, &database, "connecting to a copy of the template");
        cluster.drop_with_snapshots(&database, user)?;
        entered.map(drop)
    }

    fn run_server(
        &self,
        folder: &Path,
        socket_folder: &Path,
        context: BuildContext<'_>,
    ) -> Result<()> {
        let (server, session) = self.start_server(folder, socket_folder, context)?;
        let cluster = self.cluster_of(server, session, folder, socket_folder, context)?;
        let made = cluster.template_of(&self.schema);
        cluster.end_and_wait()?;
        made.map(drop)
    }

    fn cluster_of(
        &self,
        server: Server,
        mut session: Connection,
        folder: &Path,
        socket_folder: &Path,
        context: BuildContext<'_>,
    ) -> Result<Arc<Cluster>> {
        let password = match self.options.listen {
            Listen::Socket => None,
            Listen::Tcp => Some(set_password(folder, &mut session, context.identity)?),
        };
        let address = Address {
            folder: folder.to_owned(),
            socket_folder: socket_folder.to_owned(),
            port: server.port(),
            password,
        };
        let hold = ServerHandle::Started(server);
        Cluster::new(context.binaries.clone(), address, hold, session)
            .map_err(|failure| failure.during("preparing a template"))
    }

    fn start_server(
        &self,
        folder: &Path,
        socket_folder: &Path,
        context: BuildContext<'_>,
    ) -> Result<(Server, Connection)> {
        let lock_path = folder.join(LOCK);
        let lock = fs::File::create(&lock_path)
            .map_err(|error| Error::file("write", &lock_path, error))?;
        let settings = [temporary_settings(), self.options.settings.clone()].concat();
        Server::start(&Spec {
            binaries: context.binaries,
            identity: context.identity,
            folder,
            socket_folder,
            listen: self.options.listen,
            settings: &settings,
            on_owner_exit: OnOwnerExit::Stop,
            lock: &lock,
        })
    }
}

/// The delay that a configuration written by `ALTER SYSTEM` sets, a line such as `pre_auth_delay = '1'`.
fn delay_of(text: &str) -> Option<&'static str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let mut set = lines.filter(|(_, value)| value.trim() != "'0'");
    set.find_map(|(name, _)| {
        let is_it = |delay: &&&str| delay.eq_ignore_ascii_case(name.trim());
        DELAYS.iter().find(is_it).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_found_in_what_alter_system_wrote() {
        for (text, expected) in [
            ("# a comment = 1\nwork_mem = '4MB'\n", None),
            ("pre_auth_delay = '0'\n", None),
            (
                "work_mem = '4MB'\npre_auth_delay = '5'\n",
                Some("pre_auth_delay"),
            ),
            ("Post_Auth_Delay = '1'\n", Some("post_auth_delay")),
            ("", None),
        ] {
            assert_eq!(delay_of(text), expected, "{text}");
        }
    }
}
