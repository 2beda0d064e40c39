//! `cargo dev sanitize`: the engine's tests and the fuzz targets with AddressSanitizer, which sees
//! a read or write outside of a piece of memory, after its end, and memory that nobody gives back.
//!
//! Absent: the ends of memory that the system maps, such as a memtable's chunks of 1 MiB and more.
//! ThreadSanitizer, which takes the fences of an uninstrumented standard library for races;
//! the orders of threads are `models`' business.

use crate::repo;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Tests that are run together.
struct Tests {
    package: &'static str,
    which: &'static [&'static str],
    /// The variable that says how much of them, and how much.
    size: (&'static str, &'static str),
}

const RUNS: [Tests; 2] = [
    Tests {
        package: "tabulith",
        which: &[
            "--lib",
            "--test",
            "oracle",
            "--test",
            "histories",
            "--test",
            "golden",
            "--test",
            "salvage",
        ],
        size: ("TABULITH_ORACLE_OPS", "1000000"),
    },
    Tests { package: "tabulith-fuzz", which: &["--tests"], size: ("TABULITH_FUZZ_RUNS", "20000") },
];

/// Builds and runs them, in a target folder of its own.
pub(crate) fn run() -> Result<()> {
    let root = repo::root()?;
    let target = repo::target(&root).join("sanitize");
    let rustc = Command::new("rustc").arg("-vV").output().context("rustc does not start")?;
    let version = String::from_utf8(rustc.stdout).context("rustc's version")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say for what it compiles")?;
    for Tests { package, which, size } in RUNS {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // With a target named, build scripts and macros are compiled as always.
        command.args(["test", "--locked", "--target", host, "--package", package]).args(which);
        command.arg("--target-dir").arg(&target).current_dir(&root);
        // The option is one that stable compilers have, and do not offer.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        command.env("CARGO_INCREMENTAL", "0").env(size.0, size.1);
        let status = command.status().context("cargo does not start")?;
        ensure!(status.success(), "{package}: a test failed under AddressSanitizer");
    }
    Ok(())
}
