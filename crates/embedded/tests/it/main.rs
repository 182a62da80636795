//! Everything on a real server.

mod binaries;
