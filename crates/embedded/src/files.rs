//! Names of the files and folders in a cluster's folder.

/// File in the cluster's folder through which further owners join; see `temporary.rs`.
pub(crate) const OWNERS: &str = "owners";
/// Folder with an empty file for each owner whose join was acknowledged.
pub(crate) const JOINED: &str = "joined";
/// Appears when the server is told to end.
pub(crate) const ENDING: &str = "ending";
/// The server's data folder.
pub(crate) const DATA: &str = "data";
/// Locked as long as the watching shells or an owner live.
pub(crate) const LOCK: &str = "lock";
/// The server's log.
pub(crate) const LOG: &str = "log";
/// File with the port of 127.0.0.1, if the server listens there; an existing one is tried first.
pub(crate) const PORT: &str = "port";
/// File with the superuser's password for TCP.
pub(crate) const PASSWORD: &str = "password";
