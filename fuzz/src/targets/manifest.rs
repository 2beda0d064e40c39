//! Root and manifest: any bytes are a state or a placed error, and load, check and dump agree.
//!
//! Input: ROOT-A, ROOT-B and both copies of the manifest, each behind its length in four bytes.

use crate::input::Input;
use tabulith::internals;

/// Reads the input as it is, and with its checksums mended.
pub fn manifest(data: &[u8]) {
    let mut input = Input::new(data);
    let mut files: [Vec<u8>; 4] = std::array::from_fn(|_| input.long().to_vec());
    read(&files);
    let [root_a, root_b, manifest_a, manifest_b] = &mut files;
    internals::mend_root(root_a);
    internals::mend_root(root_b);
    internals::mend_manifest(manifest_a);
    internals::mend_manifest(manifest_b);
    read(&files);
}

fn read(files: &[Vec<u8>; 4]) {
    let slices = files.each_ref().map(Vec::as_slice);
    if let Err(error) = internals::read_manifest(slices) {
        assert!(internals::is_placed_damage(&error), "{error:?}");
    }
    for file in slices {
        internals::read_root(file);
        // An edit begins behind the headers of its file and its frame.
        internals::read_edit(file.get(48..).unwrap_or_default());
    }
}
