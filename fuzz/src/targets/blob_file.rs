//! Whole blob files: any bytes give their values or a placed error.

use tabulith::internals;

/// Reads the input as it is, and with its checksums mended.
pub fn blob_file(data: &[u8]) {
    read(data);
    let mut mended = data.to_vec();
    internals::mend_blob_file(&mut mended);
    read(&mended);
}

fn read(blob: &[u8]) {
    if let Err(error) = internals::read_blob_file(blob) {
        assert!(internals::is_placed_damage(&error), "{error:?}");
    }
}
