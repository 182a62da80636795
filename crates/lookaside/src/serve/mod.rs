//! The service behind `lookaside serve`: lookups over HTTP.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`catalog`] | what is served at one moment: lookups, keys, models |
//! | [`lookup`], [`counts`] | one lookup: its statement, prepared, and what it was asked for |
//! | [`overview`], [`openapi`] | what is told about the lookups |
//! | [`endpoint`] | the endpoints, and the paths that lead to them |
//! | [`service`] | what answers requests, one value an I/O thread |
//! | [`files`] | what the files of a project say to the server |
//! | [`reloader`], [`reloader_thread`] | the thread that makes the next catalog, and the way to it |
//! | [`params`], [`encode`], [`problem`] | from text to values, from rows to bodies, from failures to problems |
//! | [`answers`], [`tag`] | bodies that were encoded before, and their validators |
//! | [`access`], [`limit`] | who may ask, and how often |
//! | [`counters`], [`access_log`] | what is told about all that |

mod access;
mod access_log;
mod answers;
mod catalog;
mod counters;
mod counts;
mod encode;
mod endpoint;
mod files;
mod limit;
mod lookup;
mod models;
mod openapi;
mod overview;
mod params;
mod problem;
mod reloader;
mod reloader_thread;
mod service;
mod start;
mod tag;

pub(crate) use self::catalog::Catalog;
pub(crate) use self::files::Files;
pub(crate) use self::lookup::Lookup;
pub(crate) use self::overview::example;
pub(crate) use self::start::{Needed, Service, StartOptions};
