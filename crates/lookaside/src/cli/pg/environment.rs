//! Environment variables that lead a command to an embedded server.

use std::process::Command;

use super::target::PostgresTarget;
use super::url::jdbc;
use crate::failure::Failure;

/// Sets the variables of a command for an embedded server.
pub(super) fn lead(command: &mut Command, url: &str) -> Result<(), Failure> {
    let target = PostgresTarget::of_ours(url)?;
    command.env("DATABASE_URL", url);
    // Only a server that listens on TCP has one.
    if let Some(url) = jdbc(&target) {
        command.env("JDBC_DATABASE_URL", url);
    }
    target.give_to(command);
    Ok(())
}
