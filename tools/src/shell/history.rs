//! The history of lines: where it is kept, and which lines are not.

use crate::import::resume::state_folder;
use std::path::PathBuf;

/// Words of lines that hold a secret, in small letters.
const SECRETS: [&str; 8] = [
    "--connection-string",
    "--account-key",
    "--sas-token",
    "accountkey",
    "sharedaccesssignature",
    "sig=",
    "sig%3d",
    "password=",
];

/// Characters of Base64 that a key has at least: 32 bytes.
const KEY_CHARS_MIN: usize = 40;

/// The file, if there is a place for it. The library makes it for its owner alone.
pub(crate) fn file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name);
    let folder = state_folder(variable("XDG_STATE_HOME"), variable("HOME"), "shell")?;
    Some(folder.join("history"))
}

/// Whether a line may be kept: it holds no key, connection string or signature, as far as can be
/// seen, and does not begin with a blank.
pub(crate) fn may_keep(line: &str) -> bool {
    let small = line.to_ascii_lowercase();
    !line.trim().is_empty()
        && !line.starts_with(char::is_whitespace)
        && !SECRETS.iter().any(|secret| small.contains(secret))
        && !has_key(line)
}

/// Whether there is something that looks like a key: Base64 of so many bytes that it is padded.
fn has_key(line: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let mut rest = line;
    while let Some(at) = rest.find('=') {
        let before = &rest[..at];
        let run = before.len() - before.trim_end_matches(is_base64).len();
        if run >= KEY_CHARS_MIN {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_not_kept() {
        let key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        for line in [
            "query t --connection-string 'UseDevelopmentStorage=true'",
            "query t --account-name a --account-key x",
            "query t --sas-token=sv=2019-02-02",
            "copy 'AccountName=a;ACCOUNTKEY=b' dev",
            "copy dev 'https://h/a?sv=2019-02-02&Sig=abc%3D'",
            "sas decode 'https://h/?sv=x&sig%3Dabc'",
            "entity insert -t users -e PartitionKey=p RowKey=r Password=x",
            key,
            &format!(".use {key} x"),
            " query t",
            "",
        ] {
            assert!(!may_keep(line), "{line}");
        }
    }

    #[test]
    fn other_lines_are_kept() {
        for line in [
            "query flights --filter \"dep_delay gt 60\"",
            "entity upsert -t designs -e PartitionKey=p RowKey=r Design=3 Signal=7",
            "query t --filter \"Id eq guid'0d391d16-97f1-4b9a-be68-4cc871f90001'\"",
            "query t --key-file key",
            ".import long-name-of-a-file-with-more-than-forty-letters.csv t --types a=int32",
        ] {
            assert!(may_keep(line), "{line}");
        }
    }
}
