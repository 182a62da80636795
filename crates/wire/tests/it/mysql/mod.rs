//! The protocol of MySQL and MariaDB.

mod allocation;
mod dialogues;
mod fuzz;
mod large;
mod login;
mod metadata;
mod requests;
mod server;
mod transcripts;
