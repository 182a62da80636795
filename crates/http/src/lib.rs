//! A strict and fast HTTP/1.1 server library.
#![forbid(unsafe_code)]

pub mod encoding;
mod error;
mod http_date;
mod listen;
pub mod negotiate;
mod options;
mod static_files;
mod tls;

pub use error::{Error, ErrorKind, Result};
pub use listen::{Address, Listen};
pub use options::Options;
pub use static_files::{StaticFiles, StaticOptions};
pub use tls::Tls;
