//! The log of the server: to a file in detail, or warnings to stderr, as text or as JSON.

#![allow(clippy::disallowed_types, reason = "the log is the user's file, not the engine's")]

use crate::args::serve::{LogFormat, ServeArgs};
use crate::exit::Failure;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Begins it. `TABULITH_LOG` chooses what is told otherwise, as in `TABULITH_LOG=debug`.
pub(crate) fn start(args: &ServeArgs) -> Result<()> {
    let level = match (&args.debug, args.silent) {
        (Some(_), _) => LevelFilter::DEBUG,
        (None, true) => LevelFilter::ERROR,
        (None, false) => LevelFilter::WARN,
    };
    let filter = EnvFilter::builder()
        .with_default_directive(level.into())
        .with_env_var("TABULITH_LOG")
        .from_env()
        .map_err(|error| Failure::usage(format!("TABULITH_LOG: {error}")))?;
    let (writer, colour) = match &args.debug {
        Some(path) => (BoxMakeWriter::new(Arc::new(open(path)?)), false),
        None => {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty());
            (BoxMakeWriter::new(io::stderr), !plain && io::stderr().is_terminal())
        }
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match args.log_format {
        LogFormat::Text => log.with_ansi(colour).init(),
        LogFormat::Json => log.with_ansi(false).json().flatten_event(true).init(),
    }
    Ok(())
}

/// A new one is for its owner alone: it has paths of requests, and these the keys of entities.
fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path).with_context(|| format!("--debug {}", path.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::open;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_detailed_log_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mode = || path.metadata().expect("a file").permissions().mode() & 0o777;
        open(&path).expect("a new file");
        assert_eq!(format!("{:o}", mode()), "600");
        // Whoever made the file before says who reads it.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("set");
        open(&path).expect("a file");
        assert_eq!(format!("{:o}", mode()), "640");
    }
}
