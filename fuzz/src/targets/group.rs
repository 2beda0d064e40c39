//! The payload of a frame of the log: any bytes are commits or refused.

use tabulith::internals;

/// Reads the input as a group of commits.
pub fn group(data: &[u8]) {
    if let Some(operations) = internals::read_group(data) {
        // The shortest operation is a kind and an empty RowKey.
        assert!(operations * 2 <= data.len(), "{operations} of {} bytes", data.len());
    }
}
