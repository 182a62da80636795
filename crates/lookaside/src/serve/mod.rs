//! The service of `lookaside serve`: lookups over HTTP.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`catalog`] | what is served at one moment: lookups, keys, models |
//! | [`lookup`], [`counts`] | one lookup: its prepared statement and its counts |
//! | [`overview`], [`openapi`] | descriptions of the lookups for people and programs |
//! | [`endpoint`] | the endpoints and their paths |
//! | [`service`] | the request handler, one value per I/O thread |
//! | [`files`] | the parts of a project's files that concern the server |
//! | [`reloader`], [`reloader_thread`] | the handle of the thread that builds the next catalog, and that thread |
//! | [`params`], [`encode`], [`problem`] | parsing parameters, encoding rows, problem responses |
//! | [`answers`], [`tag`] | the cache of encoded bodies, and validators |
//! | [`access`], [`limit`] | access control and rate limits |
//! | [`counters`], [`access_log`] | metrics and the access log |

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
pub(crate) use self::problem::{PROBLEM_TYPE, Problem};
pub(crate) use self::service::{Coding, content_coding, decode};
pub(crate) use self::start::{Needed, Service, StartOptions};
