//! Builds the shared object that gives `initdb` an entry for a user who has none; see
//! `src/passwd_entry.rs`. Without a compiler for it the crate does without.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "src/passwd_entry.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = out.join("passwd_entry.so");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if !is_linux || !compile(&object) {
        fs::write(&object, "").expect("OUT_DIR can be written to");
    }
}

fn compile(object: &Path) -> bool {
    let Ok(compiler) = cc::Build::new()
        .opt_level(2)
        .debug(false)
        .pic(true)
        .cargo_warnings(false)
        .try_get_compiler()
    else {
        return false;
    };
    // Needs no C library, so that it fits every one that `initdb` may be linked with.
    let mut command: Command = compiler.to_command();
    command.args(["-shared", "-nostdlib", "-s", "-o"]);
    let status = command.arg(object).arg(SOURCE).status();
    let is_compiled = status.is_ok_and(|status| status.success());
    if !is_compiled {
        println!(
            "cargo:warning=initdb will not run as a user without an entry in /etc/passwd: \
             {SOURCE} cannot be compiled"
        );
    }
    is_compiled
}
