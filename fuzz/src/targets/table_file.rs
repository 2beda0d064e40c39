//! Whole table files: any bytes answer rightly or with a placed error.

use tabulith::internals;

/// Reads the input as it is, and with its checksums mended.
pub fn table_file(data: &[u8]) {
    read(data);
    let mut mended = data.to_vec();
    internals::mend_table(&mut mended);
    read(&mended);
}

fn read(table: &[u8]) {
    if let Err(error) = internals::read_table(table) {
        assert!(internals::is_placed_damage(&error), "{error:?}");
    }
}
