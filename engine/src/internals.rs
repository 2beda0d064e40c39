//! Doors to crate-private readers, for the project's own fuzzing. No promise: names and results
//! change with the code behind them.
//!
//! A reader takes the bytes of a whole file, lays them on a simulated disk, and reads them in every
//! way that the engine does, so that its checks on itself are asked too. A mender writes the
//! checksums that damaged bytes should have, so that what stands behind a checksum is reached.

use crate::backup::digest::Hash;
use crate::backup::format::Manifest;
use crate::batch::Commit;
use crate::blob::format::{self as blob_format, BlobMeta, Link};
use crate::blob::reader::BlobFile;
use crate::checksum::placed;
use crate::cursor::Cursor;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, FileNo, SegmentId};
use crate::key::hash;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::limits::{KEY_BYTES_MAX, NUMBER_MAX};
use crate::manifest::edit::Edit;
use crate::manifest::frame;
use crate::manifest::load;
use crate::manifest::root::{ROOT_BYTES, Root};
use crate::names::{self, Copy, FileKind};
use crate::options::Reach;
use crate::sstable::ahead::Pace;
use crate::sstable::block::Block;
use crate::sstable::dump::Depth;
use crate::sstable::format::{FOOTER_LEN, FileMeta, Footer, Props, SUM_LEN, Stretch, seal, unseal};
use crate::sstable::index::Index;
use crate::sstable::reader::{BlockCache, TableFile};
use crate::sstable::tally::{Passed, Tally};
use crate::table::codec::{self, EntityBytes};
use crate::table::keys;
use crate::table::lent::EntityRef;
use crate::table::value::Value;
use crate::vfs::api::{Access, Vfs};
use crate::vfs::mem::SimFs;
use crate::wal::format;
use crate::wal::format::LogFloor;
use crate::wal::{reader, replay};
use bytes::Bytes;
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const DIR: &str = "/internals";

/// What a log holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Groups of commits.
    pub groups: u64,
    /// Frames, seals included.
    pub frames: u64,
    /// The last commit replayed.
    pub last_ts: u64,
    /// Bytes cut off at its end.
    pub tail_discarded_bytes: u64,
    /// Damaged places that the complete walk found. Replay fails at the first of them.
    pub damage: Vec<String>,
}

/// Reads `segments` as a log that begins with the first: by replay, by the complete walk of the
/// check, and by the dump. Fails as replay does; panics where the ways disagree.
pub fn read_log(segments: &[&[u8]]) -> Result<Log> {
    let disk = Disk::new();
    let first = segments.first().map_or(1, |segment| claimed_segment(segment)).max(1);
    for (id, segment) in (first..).zip(segments) {
        disk.write(&names::file_name(FileKind::Wal, FileNo(id)), segment);
    }
    let (vfs, dir, floor) = (disk.vfs(), Path::new(DIR), LogFloor::at(SegmentId(first)));
    let mut last = None;
    let replayed = replay::replay(vfs, dir, floor, &mut |first_ts, last_ts, _| {
        assert!(last < Some(first_ts) && first_ts <= last_ts, "{first_ts} after {last:?}");
        last = Some(last_ts);
        Ok(())
    });
    let checked = replay::check(vfs, dir, floor, &mut |_, _, _| Ok(()))?;
    assert_eq!(replayed.is_err(), !checked.damage.is_empty(), "replay and check agree");
    for id in (first..).take(segments.len()) {
        // Told as far as it can be; a bad header is an error, and never a panic.
        let _ = reader::dump(vfs, dir, SegmentId(id), &mut |_| {});
    }
    let found = replayed?;
    Ok(Log {
        groups: found.groups,
        frames: found.frames,
        last_ts: found.last_ts.0,
        tail_discarded_bytes: found.tail_discarded_bytes,
        damage: checked.damage.iter().map(Error::to_string).collect(),
    })
}

/// The id that a log segment's header claims.
fn claimed_segment(segment: &[u8]) -> u64 {
    let id = segment.get(16..24).and_then(|id| id.try_into().ok()).map_or(1, u64::from_le_bytes);
    // The ids behind it must be ids too.
    id.min(NUMBER_MAX - 16)
}

/// Writes the checksums of a segment's header and of all that claims to be a frame. With `before`,
/// the checksum of the frame before the first, each frame also names its predecessor. The checksum
/// of the last frame is returned.
pub fn mend_log_segment(segment: &mut [u8], before: Option<u32>) -> u32 {
    let id = claimed_segment(segment);
    let mut last = before.unwrap_or_default();
    if let Some(header) = segment.get_mut(..format::SEGMENT_HEADER_BYTES) {
        let sum = placed(id, 0, &[&header[8..]]);
        header[4..8].copy_from_slice(&sum.to_le_bytes());
    }
    let header = format::SegmentHeader::decode(SegmentId(id), segment);
    let Some(format::SegmentHeader { block_bytes, salt, .. }) = header else { return last };
    let mut at = block_bytes;
    while let Some(bytes) = segment.get_mut(at..).filter(|bytes| !bytes.is_empty()) {
        let claimed = format::claimed_payload_bytes(SegmentId(id), bytes);
        let frame_len = claimed.map_or(usize::MAX, |len| format::FRAME_HEADER_BYTES + len);
        let Some(frame) = bytes.get_mut(..frame_len) else {
            at = format::next_block(at as u64, block_bytes) as usize;
            continue;
        };
        if before.is_some() {
            frame[12..16].copy_from_slice(&last.to_le_bytes());
        }
        let place = format::FramePlace { segment: SegmentId(id), salt, offset: at as u64 };
        last = place.sum(&[&frame[8..]]);
        frame[4..8].copy_from_slice(&last.to_le_bytes());
        at += frame_len.next_multiple_of(format::FRAME_ALIGN_BYTES);
    }
    last
}

/// Reads a group of commits; how many operations there are, or none where it is no group.
pub fn read_group(group: &[u8]) -> Option<usize> {
    let mut operations = 0;
    for commit in Commit::read_group(&Bytes::copy_from_slice(group))? {
        let whole = commit.each(|key, _, _| {
            assert!(order::prefix_len(key).is_some(), "an operation's key is a row's");
            operations += 1;
        });
        assert!(whole, "operations that were counted can be read");
        operations += commit.erasures().len();
    }
    Some(operations)
}

/// The files of root and manifest, copies A and B each.
pub type ManifestFiles<'a> = [&'a [u8]; 4];

/// Reads root and manifest: by load, by check and by dump. How many files the state has; none
/// where there is no database.
pub fn read_manifest(
    [root_a, root_b, manifest_a, manifest_b]: ManifestFiles<'_>,
) -> Result<Option<usize>> {
    let disk = Disk::new();
    let generation = claimed_generation(manifest_a);
    for (kind, bytes) in [
        (FileKind::Root(Copy::A), root_a),
        (FileKind::Root(Copy::B), root_b),
        (FileKind::Manifest(Copy::A), manifest_a),
        (FileKind::Manifest(Copy::B), manifest_b),
    ] {
        disk.write(&names::file_name(kind, FileNo(generation)), bytes);
    }
    let (vfs, dir) = (disk.vfs(), Path::new(DIR));
    let loaded = load::load(vfs, dir);
    let report = load::check(vfs, dir);
    let dumped = load::dump(vfs, dir, &mut |_| {});
    match &loaded {
        Ok(found) => {
            assert_eq!(found.is_some(), report.state.is_some(), "load and check agree");
            assert!(dumped.is_ok(), "what loads can be told");
        }
        Err(_) => assert!(!report.damage.is_empty(), "what does not load is damaged"),
    }
    loaded.map(|found| found.map(|found| found.state.files().count()))
}

fn claimed_generation(manifest: &[u8]) -> u64 {
    manifest.get(8..16).and_then(|no| no.try_into().ok()).map_or(1, u64::from_le_bytes)
}

/// Writes the checksum of a root.
pub fn mend_root(root: &mut [u8]) {
    if root.len() == ROOT_BYTES {
        let sum = placed(0, 0, &[&root[8..]]);
        root[4..8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Writes the checksums of a manifest's header and frames.
pub fn mend_manifest(manifest: &mut [u8]) {
    let generation = claimed_generation(manifest);
    if let Some(header) = manifest.get_mut(..frame::HEADER_BYTES) {
        let sum = placed(generation, 0, &[&header[8..]]);
        header[4..8].copy_from_slice(&sum.to_le_bytes());
    }
    let mut at = frame::HEADER_BYTES;
    while let Some(bytes) = manifest.get_mut(at..) {
        let Some(len) = bytes.get(4..8).and_then(|len| len.try_into().ok()) else { return };
        let len = frame::FRAME_HEADER_BYTES + u32::from_le_bytes(len) as usize;
        let Some(frame) = bytes.get_mut(..len) else { return };
        let sum = placed(generation, at as u64, &[&frame[4..]]);
        frame[..4].copy_from_slice(&sum.to_le_bytes());
        at += len;
    }
}

/// Reads a root; whether it is one.
pub fn read_root(root: &[u8]) -> bool {
    match Root::decode(root) {
        Ok(read) => {
            assert_eq!(read.encode(), root, "a root has one encoding");
            true
        }
        Err(_) => false,
    }
}

/// Reads an edit of the manifest; whether it is one.
pub fn read_edit(edit: &[u8]) -> bool {
    let Some(read) = Edit::decode(edit) else { return false };
    assert_eq!(read.encode(), edit, "an edit has one encoding");
    read.dump("").len() > usize::from(edit.len() > 64)
}

/// Reads a block without its checksum; how many rows it has. Panics where it was taken for sound
/// and is not.
pub fn read_block(block: &[u8]) -> Option<usize> {
    let block = Block::parse(Bytes::copy_from_slice(block)).ok()?;
    let (mut key, mut before) = (Vec::new(), None);
    for row in 0..block.rows() {
        key.clear();
        block.put_key(row, &mut key);
        let here = (key.clone(), std::cmp::Reverse(block.ts(row)));
        assert!(before.is_none_or(|before| before < here), "rows ascend");
        assert_eq!(block.lower_bound(&key, block.ts(row)), row, "a row is found where it is");
        // Its values may be damaged, which shows only when they are decompressed.
        let _ = block.value(row);
        before = Some(here);
    }
    Some(block.rows())
}

/// The blocks of a table file, checksums left out; none where it has no index.
pub fn blocks_of_table(table: &[u8]) -> Vec<Vec<u8>> {
    let stretches = table_parts(table).map(|parts| parts.blocks).unwrap_or_default();
    stretches
        .iter()
        .filter_map(|at| Some(slice(table, *at)?[..at.len as usize - SUM_LEN].to_vec()))
        .collect()
}

struct TableParts {
    no: FileNo,
    footer: Footer,
    blocks: Vec<Stretch>,
}

fn slice(table: &[u8], at: Stretch) -> Option<&[u8]> {
    let end = at.offset.checked_add(at.len)?;
    let bytes = table.get(usize::try_from(at.offset).ok()?..usize::try_from(end).ok()?)?;
    (bytes.len() >= SUM_LEN).then_some(bytes)
}

fn table_parts(table: &[u8]) -> Option<TableParts> {
    let at = table.len().checked_sub(FOOTER_LEN)?;
    let no = claimed_table(table);
    let footer = Footer::decode(no, at as u64, &table[at..]).ok()?;
    let index = slice(table, footer.index())?;
    let index = Bytes::copy_from_slice(&index[..index.len() - SUM_LEN]);
    let mut blocks = Vec::new();
    if let Ok(index) = Index::parse(&index, footer.data_len) {
        let mut entry = Some(index.first());
        while let Some(at) = entry {
            let handle = index.handle(at);
            blocks.push(Stretch { offset: handle.offset, len: handle.len.into() });
            entry = index.next(at);
        }
    }
    Some(TableParts { no, footer, blocks })
}

/// The number that a table file's footer claims.
fn claimed_table(table: &[u8]) -> FileNo {
    let at = table.len().saturating_sub(FOOTER_LEN) + 12;
    FileNo(table.get(at..at + 8).and_then(|no| no.try_into().ok()).map_or(1, u64::from_le_bytes))
}

/// Writes the checksums of a table file: footer, sections, and as far as its index reads, blocks.
pub fn mend_table(table: &mut [u8]) {
    let Some(footer_at) = table.len().checked_sub(FOOTER_LEN) else { return };
    let (no, footer_len) = (claimed_table(table), FOOTER_LEN as u64);
    mend(table, no, Stretch { offset: footer_at as u64, len: footer_len });
    let Some(TableParts { footer, .. }) = table_parts(table) else { return };
    for section in [
        footer.index(),
        footer.row_filter(),
        footer.partition_filter(),
        footer.zones(),
        footer.props(),
    ] {
        mend(table, no, section);
    }
    for block in table_parts(table).map(|parts| parts.blocks).unwrap_or_default() {
        mend(table, no, block);
    }
}

fn mend(table: &mut [u8], no: FileNo, at: Stretch) {
    let Some(sealed) = slice(table, at) else { return };
    let mut sealed = sealed[..sealed.len() - SUM_LEN].to_vec();
    seal(no, at.offset, 0, &mut sealed);
    let start = at.offset as usize;
    table[start..start + sealed.len()].copy_from_slice(&sealed);
}

/// Reads a table file in every way: verify, dump, both directions, and each row by its key. `Ok`
/// with the number of versions where it is sound. Panics where a way neither answers rightly nor
/// says what is wrong.
///
/// The manifest's word for the file is taken from the file itself.
pub fn read_table(table: &[u8]) -> Result<u64> {
    let disk = Disk::new();
    let meta = meta_of(table);
    let name = names::file_name(FileKind::Table, meta.no);
    disk.write(&name, table);
    let path = Path::new(DIR).join(name);
    let file = disk.vfs().open(&path, Access::Read);
    let file = file.map_err(|error| Error::io("opening a file", &path, error))?;
    let file = TableFile::open(file, path, &meta, Arc::new(BlockCache::new(1 << 20)))?;
    let file = Arc::new(file);
    let verified = file.verify(&meta);
    file.dump(Depth::Rows, &mut |_| Ok(()))?;
    let (forward, backward) = (walk(&file, true), walk(&file, false));
    let counted = versions(&file);
    verified.as_ref().map_err(Error::duplicate)?;
    let forward = forward?;
    assert!(backward?.iter().rev().eq(&forward), "both directions show the same rows");
    assert_eq!(forward.len() as u64, meta.rows, "every row is shown");
    assert_eq!(counted?, meta.rows, "every row is counted");
    for (key, ts) in &forward {
        let found = file.get(key, hash::of_row(key), *ts, Reach::Disk)?;
        let is_row = order::prefix_len(key).is_some();
        assert!(!is_row || found.is_some_and(|found| found.ts == *ts), "a row is found by its key");
    }
    Ok(meta.rows)
}

/// What a table file says of itself; of a file that says nothing, its length.
fn meta_of(table: &[u8]) -> FileMeta {
    let no = claimed_table(table);
    let props = table_parts(table).and_then(|parts| {
        let at = parts.footer.props();
        Props::decode(unseal(parts.no, at.offset, slice(table, at)?).ok()?).ok()
    });
    props.unwrap_or_default().into_meta(no, table.len() as u64, xxh3_64(table))
}

/// How many versions there are by the index, and by blocks where that does not say.
fn versions(file: &Arc<TableFile>) -> Result<u64> {
    let all = KeyRange { start: Vec::new(), end: vec![0xff; KEY_BYTES_MAX + 1] };
    let (mut tally, mut versions) = (Tally::new(file, &all, Pace::default()), 0);
    while tally.low().is_some() {
        if tally.is_on_row() {
            versions += 1;
            tally.leave_versions(CommitTs::MAX); // This one alone.
        } else if let Passed::Rows(rows) = tally.pass_blocks(&all.end, false) {
            versions += rows;
        } else {
            tally.read_block()?;
        }
    }
    Ok(versions)
}

/// Every version from one end to the other, up to the first error.
fn walk(file: &Arc<TableFile>, forward: bool) -> Result<Vec<(Vec<u8>, CommitTs)>> {
    let mut cursor = file.cursor();
    let mut rows = Vec::new();
    match forward {
        true => cursor.seek(&[], CommitTs::MAX)?,
        false => cursor.seek_before(&[0xff; KEY_BYTES_MAX + 1])?,
    }
    while cursor.valid() {
        rows.push((cursor.key().to_vec(), cursor.ts()));
        // A row takes two bytes at least, wherever the file says that it has more.
        assert!(rows.len() < 1 << 20, "a walk ends");
        cursor.value()?;
        if forward { cursor.next()? } else { cursor.prev()? }
    }
    Ok(rows)
}

/// What a blob file says of itself, as far as it is long enough to say it.
fn meta_of_blob(blob: &[u8]) -> BlobMeta {
    let number = |at: Option<usize>| {
        let bytes = at.and_then(|at| blob.get(at..)).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let footer = blob.len().checked_sub(blob_format::FOOTER_LEN as usize);
    BlobMeta {
        no: FileNo(number(Some(12)).min(NUMBER_MAX)),
        bytes: blob.len() as u64,
        values: number(footer.map(|at| at + 8)),
    }
}

/// Reads a blob file: all of it, and then each value by its reference. `Ok` with the number of
/// values where it is sound. Panics where the two differ.
///
/// The manifest's word for the file is taken from the file itself.
pub fn read_blob_file(blob: &[u8]) -> Result<u64> {
    let (disk, meta) = (Disk::new(), meta_of_blob(blob));
    let name = names::file_name(FileKind::Blob, meta.no);
    disk.write(&name, blob);
    let path = Path::new(DIR).join(name);
    let file = disk.vfs().open(&path, Access::Read);
    let file = file.map_err(|error| Error::io("opening a file", &path, error))?;
    let file = BlobFile::open(file, path, &meta)?;
    let (cache, mut links) = (BlockCache::new(1 << 20), Vec::new());
    file.walk(&mut |link| {
        links.push(*link);
        Ok(())
    })?;
    for link in &links {
        let mut bytes = Vec::new();
        link.put(&mut bytes);
        assert_eq!(Link::read(&bytes), Some(*link), "a reference comes back");
        let value = file.value(link, &cache, Reach::Disk)?;
        assert_eq!(value.len(), link.raw_len as usize, "a value is as long as its reference says");
    }
    Ok(meta.values)
}

/// Puts checksums right in a blob file, as far as its values follow one another, so that what lies
/// behind the checksums is looked at.
pub fn mend_blob_file(blob: &mut [u8]) {
    let meta = meta_of_blob(blob);
    let (header, footer) = (blob_format::header(meta.no), blob_format::footer(&meta));
    let Some(end) = blob.len().checked_sub(footer.len()) else { return };
    if let Some(start) = blob.get_mut(..header.len()) {
        start.copy_from_slice(&header);
    }
    let (mut at, head_len) = (header.len(), blob_format::HEAD_LEN as usize);
    while let Some(head) = blob.get(at..at + head_len)
        && let Some(mut link) = Link::of_head(meta.no, at as u64, head)
        && let Some(stored) = blob.get(at + head_len..link.end() as usize)
    {
        link.checksum = link.checksum_of(stored);
        blob[at..at + head_len].copy_from_slice(&link.head());
        at = link.end() as usize;
    }
    blob[end..].copy_from_slice(&footer);
}

/// Reads an entity's bytes. Errors: `Corrupt` where they are none.
pub fn read_entity(bytes: &[u8]) -> Result<Vec<(String, Value)>> {
    let entity = EntityBytes::open(bytes)?;
    let properties = entity.decode(|_| true)?;
    for (name, value) in &properties {
        let first = properties.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let found = entity.property(name)?.map(Value::from);
        // NaN is not itself, so the bytes are compared.
        let bytes_of = |value: &Value| codec::encode(&[(String::new(), value.clone())]);
        assert_eq!(found.as_ref().map(bytes_of), first.map(bytes_of), "{name}: {value:?}");
    }
    Ok(properties)
}

/// The entity of these keys whose properties are `bytes`, as reads lend it.
pub fn lend_entity<'a>(
    partition_key: &'a str,
    row_key: &'a str,
    ts: CommitTs,
    bytes: &'a [u8],
) -> Result<EntityRef<'a>> {
    EntityRef::open(partition_key, row_key, (ts, None), bytes)
}

/// An entity's bytes.
pub fn write_entity(properties: &[(String, Value)]) -> Vec<u8> {
    codec::encode(properties)
}

/// The key bytes of a text.
pub fn key_bytes(text: &str) -> Vec<u8> {
    keys::encode(text).into_owned()
}

/// The text of key bytes; none where they are no key's.
pub fn key_text(bytes: &[u8]) -> Option<String> {
    keys::decode(bytes).map(|text| text.into_owned())
}

/// The order of two keys' texts.
pub fn compare_keys(a: &str, b: &str) -> Ordering {
    keys::compare(a, b)
}

/// Reads the manifest of a backup; how many files it names. `sealed`: under the digest that it
/// should have. What reads is written as it was read, or else this panics.
pub fn read_backup_manifest(text: &[u8], sealed: bool) -> Result<usize> {
    let mut bytes = text.to_vec();
    if sealed {
        let body = text.strip_suffix(b"\n").unwrap_or(text);
        let last = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(last);
        let end = Hash::of(&bytes).hex();
        bytes.extend_from_slice(format!("end {end}\n").as_bytes());
    }
    let manifest = Manifest::decode(&bytes, Path::new("000001.backup"))?;
    assert_eq!(manifest.encode().as_bytes(), bytes, "it is written as it was read");
    Ok(manifest.files.len())
}

/// Whether an error is what damaged bytes should give. They may look like those of a codec that
/// this build lacks.
pub fn is_placed_damage(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Unsupported)
        && error.place().is_some_and(|(_, offset)| offset.is_some())
}

/// A folder on a simulated disk.
struct Disk(SimFs);

impl Disk {
    #[expect(clippy::expect_used, reason = "the simulated disk has room for every name")]
    fn new() -> Disk {
        let disk = SimFs::new();
        disk.create_dir_all(Path::new(DIR)).expect("a folder");
        Disk(disk)
    }

    #[expect(clippy::expect_used, reason = "the simulated disk takes every write")]
    fn write(&self, name: &str, bytes: &[u8]) {
        let file = self.0.create(&Path::new(DIR).join(name)).expect("a file");
        file.write_all_at(bytes, 0).expect("a write");
    }

    fn vfs(&self) -> &dyn Vfs {
        &self.0
    }
}
