//! Logical replication: the COPY in both directions, the commands, and the messages of the stream.

mod copy_both;
