//! The account of a simulation, and its keys by number.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Its name.
pub(crate) const ACCOUNT: &str = "simulated";

/// The text of a key of the account.
pub(crate) fn key_text(number: u64) -> String {
    STANDARD.encode(format!("key number {number:04} of the account"))
}

/// The accounts that are served with the first key of that number.
pub(crate) fn accounts(number: u64) -> String {
    format!("{ACCOUNT}:{}:{}", key_text(number), key_text(9_999))
}
