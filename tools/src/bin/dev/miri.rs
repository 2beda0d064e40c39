//! `cargo dev miri`: the tests of the modules with `unsafe` code in an interpreter that knows every
//! byte: what no program may do is found where it happens, whether or not it would have harmed.
//!
//! Absent: what the system maps, files and large chunks, for Miri makes no system calls. Two tests
//! that need thousands of rows, and touch no memory in a way that others do not.

use crate::repo;
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

/// What there is `unsafe` code in, or what lives from it.
const TESTS: [&str; 3] = ["chunks::", "memtable::store::", "memtable::tests::"];
const TOO_LONG: [&str; 2] = ["rows_of_one_slot", "neighbours_that_come_in_order"];

/// Runs those tests, or those whose names have one of `names` in them, in a target folder of their
/// own. Miri comes with nightly compilers.
pub(crate) fn run(names: &[String]) -> Result<()> {
    let root = repo::root()?;
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        // What the compiler that started this program says of itself is not nightly's.
        command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        command.arg("+nightly").args(arguments).current_dir(&root);
        command
    };
    let said = cargo(&["miri", "--version"]).output().context("cargo does not start")?;
    if !said.status.success() {
        bail!("there is no Miri: rustup component add --toolchain nightly miri rust-src");
    }
    let mut command = cargo(&["miri", "test", "--locked", "--package", "tabulith", "--lib"]);
    command.arg("--target-dir").arg(repo::target(&root).join("miri"));
    command.arg("--");
    TOO_LONG.iter().for_each(|name| _ = command.args(["--skip", name]));
    match names {
        [] => command.args(TESTS),
        names => command.args(names),
    };
    // Seeds are in the environment, and locks of the libraries keep bits in their pointers.
    let flags = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";
    let status = command.env("MIRIFLAGS", flags).env("CARGO_INCREMENTAL", "0").status();
    ensure!(status.context("cargo does not start")?.success(), "a test failed under Miri");
    Ok(())
}
