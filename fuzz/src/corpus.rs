//! Inputs to begin with: `fuzz/corpus/TARGET/*`, among them every input that ever failed.

#![allow(clippy::disallowed_methods, reason = "files of the repository, not of a database")]

use crate::targets::list::Target;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of a target's inputs.
pub fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// The inputs of a target by name; equal on every machine.
pub fn load(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder(target))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, fs::read(&path)?));
    }
    files.sort();
    Ok(files)
}

/// Writes an input into the corpus.
pub fn save(target: &Target, name: &str, input: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder(target))?;
    fs::write(folder(target).join(name), input)
}

/// Reads one input from anywhere.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Keeps an input that failed where tests may write, and tells where.
pub fn keep_failed(target: &str, input: &[u8]) -> io::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("tabulith-fuzz-{target}-{:016x}", hash(input)));
    fs::write(&path, input)?;
    Ok(path)
}

/// FNV-1a: names a file, nothing more.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
