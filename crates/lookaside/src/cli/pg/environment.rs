//! What the environment tells a command of a server of ours.

use std::process::Command;

use super::target::Target;
use super::url::jdbc;
use crate::failure::Failure;

/// Tells a command of a server of ours.
pub(super) fn lead(command: &mut Command, url: &str) -> Result<(), Failure> {
    let target = Target::of_ours(url)?;
    command.env("DATABASE_URL", url);
    // A server on TCP has one.
    if let Some(url) = jdbc(&target) {
        command.env("JDBC_DATABASE_URL", url);
    }
    target.give_to(command);
    Ok(())
}
