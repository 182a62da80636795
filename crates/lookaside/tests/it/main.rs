//! Tests of the program from the outside, and of rules for the source tree.

mod arena;
mod bench;
mod browser;
mod closed_output;
mod commands;
mod documentation;
mod drops;
mod enrich;
mod feed;
mod fmt;
mod following;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "kafka")]
mod kills;
mod live;
mod lookup_failures;
mod mistakes;
mod output_files;
mod outputs;
mod pg;
mod pg_clean;
mod pg_extension;
mod pg_list;
mod pg_shell;
mod pg_template;
#[cfg(feature = "postgres")]
mod postgres;
mod program;
mod providers;
mod routes;
mod schema;
mod serve;
mod several_models;
mod shared_files;
mod signals;
mod slow;
mod tidy;
mod types;
mod verify;
mod warnings;
mod webhook;
