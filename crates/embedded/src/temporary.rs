//! Temporary clusters: one that this user's processes share, or one for a single owner.
//!
//! The shared one is found through a file with its name. A joining process writes its name into the
//! owners' pipe and waits for an acknowledgement; if there is none, because the server was about to
//! end, it creates a new cluster and writes its name into the file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::admin::Connection;
use crate::cluster::{Address, Cluster, ServerHandle, lock};
use crate::cluster_folder::{self, ClusterFolder};
use crate::cluster_manifest::ClusterManifest;
use crate::cluster_options::ClusterOptions;
use crate::endpoint::PORT_DEFAULT;
use crate::files::{PASSWORD, PORT};
use crate::names::USER;
use crate::password::set_password;
use crate::server::{self, Listen, OnOwnerExit, Server, Spec};
use crate::setup::Setup;
use crate::{Error, Result, archive, digest, file_lock};

/// The key of a shared cluster: equal options lead to the same one.
fn key_of(setup: &Setup, options: &ClusterOptions) -> String {
    let mut text = format!("{}\0{:?}", setup.template.key(), options.listen);
    for (name, value) in &options.settings {
        text.extend(["\0", name, "\0", value]);
    }
    format!("shared-{}", digest::of(text.as_bytes()))
}

/// The cluster that this process and others of its user share.
pub(crate) fn shared(setup: &Setup, options: &ClusterOptions) -> Result<Arc<Cluster>> {
    /// Kept until the end of the process, so that the next database needs no start.
    static CLUSTERS: Mutex<Option<HashMap<String, Arc<Cluster>>>> = Mutex::new(None);
    let key = key_of(setup, options);
    let mut clusters = lock(&CLUSTERS);
    let clusters = clusters.get_or_insert_default();
    if let Some(cluster) = clusters.get(&key) {
        if cluster.is_running() {
            return Ok(Arc::clone(cluster));
        }
        clusters.remove(&key);
    }
    let cluster = join_or_start(setup, options, &key)?;
    clusters.insert(key, Arc::clone(&cluster));
    Ok(cluster)
}

fn join_or_start(setup: &Setup, options: &ClusterOptions, key: &str) -> Result<Arc<Cluster>> {
    let current = setup.runtime_dir.folder.join(format!("{key}.current"));
    if let Some(cluster) = join(setup, &current) {
        return Ok(cluster);
    }
    let _making = file_lock::lock(&setup.runtime_dir.folder.join(format!("{key}.lock")))?;
    // Another process may have created it meanwhile.
    if let Some(cluster) = join(setup, &current) {
        return Ok(cluster);
    }
    let cluster = start(setup, options, OnOwnerExit::RemoveShared)?;
    cluster.warm_template()?;
    let name = cluster
        .folder
        .file_name()
        .expect("a cluster's folder has a name");
    fs::write(&current, name.as_encoded_bytes())
        .map_err(|error| Error::file("write", &current, error))?;
    Ok(cluster)
}

fn join(setup: &Setup, current: &Path) -> Option<Arc<Cluster>> {
    let name = fs::read_to_string(current).ok()?;
    let folder = setup.runtime_dir.folder.join(name);
    let owner = server::join(&folder)?;
    let port = match fs::read_to_string(folder.join(PORT)) {
        Ok(port) => port.parse().ok()?,
        Err(_) => PORT_DEFAULT,
    };
    let password = fs::read_to_string(folder.join(PASSWORD)).ok();
    let address = Address {
        socket_folder: folder.join("s"),
        folder,
        port,
        password,
    };
    let session = Connection::open(&address.socket_folder, port, USER, "postgres").ok()?;
    let hold = ServerHandle::Joined { _owner: owner };
    let cluster = Cluster::new(setup.binaries.clone(), address, hold, session).ok()?;
    cluster.start_sweep();
    Some(cluster)
}

/// A cluster for one owner.
pub(crate) fn fresh(setup: &Setup, options: &ClusterOptions) -> Result<Arc<Cluster>> {
    start(setup, options, OnOwnerExit::Remove)
}

/// A cluster for one owner with the data of an archive, and its manifest.
pub(crate) fn restored(
    setup: &Setup,
    options: &ClusterOptions,
    archive: &Path,
) -> Result<(Arc<Cluster>, ClusterManifest)> {
    let (folder, manifest) = ClusterFolder::create_with(setup.context(), |data| {
        archive::unpack(archive, data, setup.identity, setup.binaries.version())
    })?;
    Ok((
        start_in(folder, setup, options, OnOwnerExit::Remove)?,
        manifest,
    ))
}

fn start(
    setup: &Setup,
    options: &ClusterOptions,
    on_owner_exit: OnOwnerExit,
) -> Result<Arc<Cluster>> {
    let start_once = || {
        start_in(
            ClusterFolder::create(&setup.template, setup.context())?,
            setup,
            options,
            on_owner_exit,
        )
    };
    let cluster = match start_once() {
        // The cause may be the copy: a spare one, or the template itself, unless it is undamaged
        // and the caller's settings explain the failure. To check, all files of the template are
        // read, which takes seconds in an unoptimized program.
        Err(error) if error.is_start_failure() && !options.are_rejected(&error) => {
            cluster_folder::remove_spare(&setup.template, &setup.runtime_dir);
            let is_repaired = setup.template.repair(setup.context())?;
            match is_repaired || options.settings.is_empty() {
                true => start_once().map_err(|_| error),
                false => Err(error),
            }
        }
        result => result,
    }?;
    cluster.offer_first_database();
    Ok(cluster)
}

fn start_in(
    mut folder: ClusterFolder,
    setup: &Setup,
    options: &ClusterOptions,
    on_owner_exit: OnOwnerExit,
) -> Result<Arc<Cluster>> {
    let path = folder.path.clone();
    let written = file_lock::sign(&mut folder.lock, &std::process::id().to_string());
    written.map_err(|error| Error::file("write", &path, error))?;
    let socket_folder = path.join("s");
    let started = Server::start(&Spec {
        binaries: &setup.binaries,
        identity: setup.identity,
        folder: &path,
        socket_folder: &socket_folder,
        listen: options.listen,
        settings: &options.settings(setup.binaries.version()),
        on_owner_exit,
        lock: &folder.lock,
    });
    let (server, mut session) = match started {
        Ok(started) => started,
        Err(error) => {
            cluster_folder::remove(&path);
            return Err(error);
        }
    };
    let port = server.port();
    let password = match options.listen {
        Listen::Socket => None,
        Listen::Tcp => Some(set_password(&path, &mut session, setup.identity)?),
    };
    let address = Address {
        folder: path,
        socket_folder,
        port,
        password,
    };
    Cluster::new(
        setup.binaries.clone(),
        address,
        ServerHandle::Started(server),
        session,
    )
    .map_err(|failure| failure.during("starting the server"))
}
