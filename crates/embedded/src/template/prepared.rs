//! Templates with a database that is not empty: it has extensions, or the caller's own code has filled
//! it, such as a migrator.
//!
//! Such a template is a copy of the one that `initdb` made, in which a private server ran the work once.
//! It stays in the cache under a key of its contents, for code of the caller's under the caller's key, and
//! servers with such databases begin as copies of it; those of other contents are other servers. Whatever
//! the code did to the server as a whole, such as `CREATE ROLE`, is therefore in the copies as well, and
//! in no other server.

use std::fs;
use std::path::Path;

use crate::admin::Connection;
use crate::cluster::{Address, Cluster, Hold};
use crate::files::{DATA, LOCK, LOG, PASSWORD, PORT};
use crate::manifest::Manifest;
use crate::password::set_password;
use crate::place::make_private;
use crate::schema::Schema;
use crate::server::{Ending, Listen, Server, Spec};
use crate::settings::temporary_settings;
use crate::wishes::Wishes;
use crate::{Error, Result, digest};

use super::{Makers, Template};

/// How a template with a prepared database is made.
#[derive(Clone, Debug)]
pub(crate) struct Preparation {
    base: Template,
    schema: Schema,
    wishes: Wishes,
    /// Of files outside of the schema that it depends on.
    stamp: String,
}

impl Preparation {
    pub(crate) fn new(base: &Template, schema: &Schema, wishes: &Wishes, stamp: String) -> Self {
        Self {
            base: base.clone(),
            schema: schema.clone(),
            wishes: wishes.clone(),
            stamp,
        }
    }

    /// The template's key: whose copy it is, what is in it, and what the server was told meanwhile.
    pub(super) fn key(&self) -> String {
        let mut text = self.schema.digest();
        for (name, value) in &self.wishes.settings {
            text.extend(["\0", name, "\0", value]);
        }
        text.push_str(&self.stamp);
        format!("{}-{}", self.base.key(), digest::of(text.as_bytes()))
    }

    /// Makes the template in `folder`, with a server that nobody else knows. If this process dies the
    /// server ends, and the folder never has the name by which it would be found.
    pub(super) fn fill(&self, folder: &Path, makers: Makers<'_>) -> Result<()> {
        let data = folder.join(DATA);
        self.base.copy_or_mend(&data, makers)?;
        let socket_folder = makers.place.socket_folder(folder);
        make_private(&socket_folder, makers.identity)?;
        let filled = self
            .run_server(folder, &socket_folder, makers)
            .and_then(|()| self.try_server(folder, &socket_folder, makers));
        let _ = fs::remove_dir_all(&socket_folder);
        filled?;
        for name in [PASSWORD, PORT, LOG, "data/postmaster.opts"] {
            let _ = fs::remove_file(folder.join(name));
        }
        Manifest::of(&data)?.write(folder)
    }

    /// Starts a server on what was filled: the contents may have changed its configuration so that none
    /// starts, and every later start would fail without naming them.
    fn try_server(&self, folder: &Path, socket_folder: &Path, makers: Makers<'_>) -> Result<()> {
        let Some(label) = self.schema.label() else {
            return Ok(());
        };
        let unusable = |error| Error::template_is_unusable(&label, error);
        let started = self.start_server(folder, socket_folder, makers);
        let (mut server, mut session) = started.map_err(unusable)?;
        let prepared = match self.wishes.listen {
            Listen::Socket => Ok(()),
            Listen::Tcp => set_password(folder, &mut session, makers.identity).map(drop),
        };
        drop(session);
        server.end_and_wait()?;
        prepared.map_err(unusable)
    }

    fn run_server(&self, folder: &Path, socket_folder: &Path, makers: Makers<'_>) -> Result<()> {
        let (server, mut session) = self.start_server(folder, socket_folder, makers)?;
        let password = match self.wishes.listen {
            Listen::Socket => None,
            Listen::Tcp => Some(set_password(folder, &mut session, makers.identity)?),
        };
        let address = Address {
            folder: folder.to_owned(),
            socket_folder: socket_folder.to_owned(),
            port: server.port(),
            password,
        };
        let hold = Hold::Started(server);
        let cluster = Cluster::new(makers.binaries.clone(), address, hold, session)
            .map_err(|failure| failure.during("preparing a template"))?;
        let made = cluster.template_of(&self.schema);
        cluster.end_and_wait()?;
        made.map(drop)
    }

    fn start_server(
        &self,
        folder: &Path,
        socket_folder: &Path,
        makers: Makers<'_>,
    ) -> Result<(Server, Connection)> {
        let lock_path = folder.join(LOCK);
        let lock = fs::File::create(&lock_path)
            .map_err(|error| Error::file("write", &lock_path, error))?;
        let settings = [temporary_settings(), self.wishes.settings.clone()].concat();
        Server::start(&Spec {
            binaries: makers.binaries,
            identity: makers.identity,
            folder,
            socket_folder,
            listen: self.wishes.listen,
            settings: &settings,
            ending: Ending::Stop,
            lock: &lock,
        })
    }
}
