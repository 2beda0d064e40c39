//! `cargo dev loom` and `cargo dev shuttle`: the engine with a model checker's locks and atomics.

use crate::{cfg, repo};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Builds the engine for `checker` and runs its models; `names` are parts of the names of those
/// that are to be run.
pub(crate) fn run(checker: &str, names: &[String]) -> Result<()> {
    let root = repo::root()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Those are compiled longer than they run here, the latter two for loom; all others are as in
    // every test.
    for package in ["tabulith", "regex-automata", "tracing-subscriber"] {
        command.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=0"));
    }
    command.args(["test", "--quiet", "--locked", "--package", "tabulith", "--lib", "--"]);
    set(&mut command, &root, checker)?;
    match names {
        [] => command.arg("models::"),
        names => command.args(names),
    };
    let status = command
        .arg("--nocapture")
        .current_dir(&root)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .status()
        .context("cargo does not start")?;
    if !status.success() {
        bail!("a model of {checker} failed");
    }
    Ok(())
}

/// Has `cargo` compile the engine for `checker`.
pub(crate) fn set(cargo: &mut Command, root: &Path, checker: &str) -> Result<()> {
    cfg::set(cargo, root, &format!("model=\"{checker}\""))
}
