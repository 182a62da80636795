//! A server in the same process, and clients that behave and misbehave.

mod client;
mod later;
mod requests;
mod service;
mod streams;
