//! A server in the same process, and clients that behave and misbehave.

mod client;
mod requests;
mod service;
