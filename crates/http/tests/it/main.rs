//! A server in the same process, and clients that behave and misbehave.

mod client;
mod later;
mod life;
mod refusals;
mod requests;
mod service;
mod streams;
