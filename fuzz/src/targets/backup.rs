//! The manifest of a backup: any text is one or a placed error; what reads is written the same way.

use tabulith::internals;

/// Reads the input as a manifest, as it is and with its last line made right.
pub fn backup(data: &[u8]) {
    for sealed in [false, true] {
        match internals::read_backup_manifest(data, sealed) {
            Ok(files) => assert!(files * 80 <= data.len(), "{files} files of {} bytes", data.len()),
            Err(error) => assert!(internals::is_placed_damage(&error), "{error}"),
        }
    }
}
