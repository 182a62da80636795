//! A PostgreSQL that starts inside a test or an app.
//!
//! ```no_run
//! use lookaside_embedded::Postgres;
//!
//! let db = Postgres::temporary()?;       // isolated, empty, dropped with the value
//! println!("{}", db.url());              // any client: sqlx, tokio-postgres, diesel, psql, Python, Go
//! # Ok::<(), lookaside_embedded::Error>(())
//! ```
//!
//! The server is a real one, found on this machine or downloaded once, and accepts many
//! connections. A cluster is a copy of a template that `initdb` made once; a temporary database is
//! a copy of an empty one, created in about ten milliseconds, or handed out at once if one is
//! ready. This crate provides URLs and is independent of any driver.
//!
//! A server ends with its owner, however that ends: a small separate process watches a pipe that
//! the kernel closes. The guide is `docs/EMBEDDED.md`.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `LOOKASIDE_PG_BIN` | the folder with `postgres` and `initdb` to use |
//! | `LOOKASIDE_PG_OFFLINE` | never download |
//! | `LOOKASIDE_PG_VERIFY=full` | verify every downloaded file and every file of the template first |
//! | `LOOKASIDE_PG_TEMP` | the folder of temporary clusters |
//! | `LOOKASIDE_CACHE` | the cache of servers and templates |

#![forbid(unsafe_code)]

mod added;
mod admin;
mod archive;
mod binaries;
mod builder;
mod cache;
mod clean;
mod cluster;
mod cluster_folder;
mod cluster_manifest;
mod cluster_options;
mod contents;
mod descriptor_limit;
mod digest;
mod doctor;
mod dump;
mod endpoint;
mod error;
mod extension;
mod file_lock;
mod file_manifest;
mod files;
mod identity;
mod initializer;
mod instance;
mod kill;
mod names;
mod passwd_entry;
mod password;
mod persistent;
mod pidfile;
mod postgres;
mod preflight;
mod process;
mod process_limit;
mod runtime_dir;
mod schema;
mod segment;
mod server;
mod server_error;
mod settings;
mod setup;
mod template;
mod template_key;
mod temporary;
mod unnamed_user;
mod verify;
mod version;

/// The guide's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/EMBEDDED.md")]
struct Guide;

pub use added::AddedExtension;
pub use binaries::{Binaries, Progress, Source};
pub use builder::Builder;
pub use clean::{CleanMode, Leftover, clean};
pub use doctor::{Finding, Grade, Report, doctor};
pub use error::{Error, ErrorKind, Result};
pub use extension::{ExtensionSource, Extensions};
pub use instance::{Instance, Running, Status};
pub use postgres::{Extension, Postgres};
pub use template_key::key_of_files;
pub use version::{Version, VersionRequirement};
