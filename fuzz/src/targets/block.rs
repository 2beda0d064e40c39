//! Blocks of table files: any bytes are rows in order or refused.

use tabulith::internals;

/// Reads the input as a block without its checksum.
pub fn block(data: &[u8]) {
    internals::read_block(data);
}
