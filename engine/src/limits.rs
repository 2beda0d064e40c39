//! Bounds that several files share, with the relations between them asserted.

/// Most bytes of a PartitionKey or of a RowKey in its stored form.
///
/// The service's 1,024 UTF-16 units take 3 bytes each at most.
pub const KEY_PART_BYTES_MAX: usize = 4 << 10;

/// Most bytes of a whole encoded key: table id, escaped PartitionKey and its end, RowKey.
pub const KEY_BYTES_MAX: usize = 4 + 2 * KEY_PART_BYTES_MAX + 2 + KEY_PART_BYTES_MAX;

/// Most bytes of one row's value.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// Most bytes of the operations of one commit, as the log stores them.
pub const COMMIT_BYTES_MAX: usize = 128 << 20;

/// Most rows that one commit may change.
pub const COMMIT_ROWS_MAX: usize = 1 << 20;

/// Bytes of the bounds of all ranges that one commit deletes as such: a range has its PartitionKey
/// twice, however short the commit is, and a flush records those of a memtable in one edit.
pub const ERASED_BOUNDS_BYTES_MAX: usize = 16 << 20;

/// Most bytes of a table's name and of the text kept with it.
pub const TABLE_NAME_BYTES_MAX: usize = 512;

/// Most bytes of the name of a column that a table declares. A property's name has at most 255
/// UTF-16 units, which are 765 bytes.
pub const ZONE_COLUMN_BYTES_MAX: usize = 1024;

/// Levels of the tree, L0 included.
pub const LEVELS: usize = 7;

/// Largest number of a file, segment, generation, frame or commit that is taken from log, manifest,
/// root or a file's name. No counter and no clock gets there before the year 16,000, and whoever
/// counts on from it has room.
pub const NUMBER_MAX: u64 = 1 << 62;

/// Largest number with which anything is begun: from there on somebody counts.
pub const BEGUN_NUMBER_MAX: u64 = NUMBER_MAX / 4 * 3;

const _: () = assert!(KEY_BYTES_MAX < u16::MAX as usize, "an encoded key's length fits a u16");
const _: () = assert!(VALUE_BYTES_MAX < COMMIT_BYTES_MAX, "a commit holds the largest value");
