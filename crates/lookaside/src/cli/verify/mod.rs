//! `lookaside verify`: checks promises of the product against real servers.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`freshness`] | the command: arguments, one run for each server, exit code |
//! | [`names`] | contracts, layers and faults as options name them |
//! | [`server`] | the database under test: our own server, or one at a URL |
//! | [`registers`] | the tables of the run, and the statements of lookups |
//! | [`product`] | the product under test: a project folder, its tables, its HTTP service |
//! | [`demand`] | what of a contract the product is asked for |
//! | [`first_use`] | statements that are used for the first time during the run |
//! | [`read`], [`http`] | the readers: sessions over all layers, and requests over HTTP |
//! | [`write`], [`pattern`] | the writers, and how they write during a fault |
//! | [`inject`], [`relay`] | the faults, and the link that some of them disturb |
//! | [`report`] | what is printed |

mod demand;
mod first_use;
mod freshness;
mod http;
mod inject;
mod names;
mod pattern;
mod product;
mod read;
mod registers;
mod relay;
mod report;
mod server;
mod write;

use std::error::Error;

use clap::{Args, Subcommand};

use crate::failure::CommandResult;

/// Check what the product promises, against real servers and under faults
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    #[command(subcommand)]
    command: VerifyCommand,
}

#[derive(Debug, Subcommand)]
enum VerifyCommand {
    Freshness(freshness::FreshnessArguments),
}

pub(crate) fn run(arguments: &VerifyArguments) -> CommandResult {
    match &arguments.command {
        VerifyCommand::Freshness(arguments) => freshness::run(arguments),
    }
}

/// What an operation of a run failed with. It is counted and shown; nothing depends on its type.
type Cause = Box<dyn Error + Send + Sync>;
