//! Logical replication: the COPY in both directions, the commands, and the messages of the stream.

mod commands;
mod copy_both;
mod golden;
mod random;
mod recorded;
