//! What a real server makes of our values, and we of its.
#![allow(
    clippy::print_stderr,
    reason = "seeds and what a test had to leave out are said"
)]

mod differential;
mod documented;
mod generate;
mod params;
mod raw;
mod session;
