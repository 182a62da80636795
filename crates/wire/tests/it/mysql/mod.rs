//! The protocol of MySQL and MariaDB.

mod transcripts;
