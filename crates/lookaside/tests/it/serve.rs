//! `lookaside serve` as its clients meet it: the program itself, over real sockets.

mod access;
mod client;
mod coding;
mod console;
mod lookups;
mod reload;
mod running;
mod starting;
mod streams;

use self::client::{Answer, Client};
use self::running::{Running, SERVED, project, serve};
