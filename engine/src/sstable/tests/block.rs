//! One block: what its columns hold, and which rule refuses what.

use super::*;
use crate::compress::{Codec, Compressor};
use crate::sstable::block::Block;
use crate::sstable::block_builder::{BlockBuilder, NewRow};
use crate::sstable::format::Damage;
use crate::zstandard;
use bytes::Bytes;

fn row<'a>(prefix: &'a [u8], row_key: &'a [u8], ts: u64, value: &'a [u8]) -> NewRow<'a> {
    let kind = if value.is_empty() { RowKind::Delete } else { RowKind::Put };
    NewRow { prefix, row_key, ts: CommitTs(ts), shared: None, kind, print: 0, value }
}

fn encode(rows: &[NewRow<'_>]) -> Vec<u8> {
    let (mut builder, mut out) = (BlockBuilder::default(), Vec::new());
    for row in rows {
        let shared = builder.shared_with_last(row.prefix, row.row_key);
        builder.push(&NewRow { shared, ..*row });
    }
    builder.encode(true, Some(&mut Compressor::new(PACKED)), &mut out);
    out
}

fn parse(bytes: &[u8]) -> Result<Block, Damage> {
    Block::parse(Bytes::copy_from_slice(bytes))
}

/// The block that docs/format.md explains, without fingerprints of real keys.
fn example() -> Vec<u8> {
    let (a, b) = (b"\0\0\0\x01a\0\x01", b"\0\0\0\x01b\0\x01");
    encode(&[
        row(a, b"item-1", 5, b"new"),
        row(a, b"item-1", 3, b"old"),
        row(a, b"item-200000000", 9, b"long"),
        row(b, b"x", 4, b""),
    ])
}

#[track_caller]
fn refused(at: usize, bytes: &[u8], why: &str) {
    let mut block = example();
    block[at..at + bytes.len()].copy_from_slice(bytes);
    assert_eq!(parse(&block).err().map(|damage| damage.0), Some(why));
}

#[test]
fn each_rule_refuses_what_breaks_it() {
    assert!(parse(&example()).is_ok());
    refused(0, &[0, 0], "block has impossible counts of rows and runs");
    refused(2, &[0, 0], "block has impossible counts of rows and runs");
    refused(2, &[5, 0], "block has impossible counts of rows and runs");
    refused(4, &[5, 0], "block's columns do not fill it");
    refused(10, &[16], "block ends in its header");
    refused(10, &[1 | 2 | 8], "block ends in its header");
    refused(11, &[3], "block has an impossible timestamp width");
    refused(12, &[9], "block's values have an impossible length");
    refused(16, &[9], "block's columns do not fill it");
    refused(10, &[3, 1, 0, 0, 0, 1], "block's values have an impossible length");
    refused(20, &[0xff; 8], "row's timestamp overflows");
    refused(32, &[1], "block's runs do not divide its rows");
    refused(38, &[0], "block's runs do not divide its rows");
    refused(38, &[4], "block's runs do not divide its rows");
    refused(36, &[2], "block's run texts go backwards");
    refused(40, &[7], "block's run texts go backwards");
    refused(42, &[11], "block's run texts do not fill their column");
    refused(44, b"b", "block's partitions are out of order");
    refused(44, b"c", "block's partitions are out of order");
    refused(61, &[1], "row's key goes on after its end");
    refused(60, b"3", "block's rows are out of order");
    refused(92, &[0x1f], "row has an unknown kind");
    refused(92, &[0x91], "row's head has an impossible length");
    refused(96, &[0], "block's rows are out of order");
    refused(100, &[1, 0, 1, 0], "row's key has an impossible length");
    refused(104, &[0, 0], "row's key has an impossible length");
    refused(110, &[2], "row's value has an impossible length");
    refused(112, &[5], "row's value has an impossible length");
    refused(112, &[9, 0, 9, 0], "block's rows do not fill their columns");
}

#[test]
fn a_block_is_refused_when_longer_or_shorter_than_it_says() {
    let block = example();
    assert!(parse(&[&block[..], &[0]].concat()).is_err());
    assert!((0..block.len()).all(|len| parse(&block[..len]).is_err()));
}

#[test]
fn a_partition_within_another_is_refused() {
    let block = encode(&[row(b"a", b"x", 1, b"v"), row(b"ab", b"x", 1, b"v")]);
    assert_eq!(parse(&block).err(), Some(Damage("block's partitions are out of order")));
}

#[test]
fn timestamps_of_every_width_come_back() {
    const BASE: u64 = 17_000_000_000_000_000;
    for span in [0, 1, 0xff, 0x100, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX - BASE] {
        let rows = [row(b"p", b"a", BASE, b"v"), row(b"p", b"b", BASE + span, b"v")];
        let block = parse(&encode(&rows)).unwrap();
        assert_eq!((block.ts(0).0, block.ts(1).0), (BASE, BASE + span));
    }
    let whole = parse(&encode(&[row(b"p", b"a", 0, b"v"), row(b"p", b"b", u64::MAX, b"v")]));
    assert_eq!(whole.unwrap().ts(1), CommitTs::MAX);
}

#[test]
fn values_of_every_width_come_back() {
    for len in [1, 255, 256, 65_534, 65_535, 65_536, 1 << 20] {
        for byte in [None, Some(7)] {
            let mut rng = Rng::seeded(len as u64);
            let big: Vec<u8> = (0..len).map(|_| byte.unwrap_or(rng.next_u64() as u8)).collect();
            let block = encode(&[row(b"p", b"a", 1, b"v"), row(b"p", b"b", 1, &big)]);
            let block = parse(&block).unwrap();
            let codec = if byte.is_some() && len > 200 { PACKED } else { Codec::None };
            assert_eq!(block.layout().codec, codec, "compressed where it pays");
            assert!(block.value(0).unwrap() == b"v"[..] && block.value(1).unwrap() == big);
        }
    }
}

#[test]
fn threads_that_want_the_same_values_all_get_them() {
    let value = [7; 2000];
    let bytes = encode(&[row(b"p", b"a", 1, &value), row(b"p", b"b", 1, &value)]);
    for _ in 0..200 {
        let block = parse(&bytes).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let block = &block;
                scope.spawn(move || assert!(block.value(thread % 2).unwrap() == [7; 2000][..]));
            }
        });
    }
}

#[test]
fn keys_of_a_codec_that_the_build_lacks_are_read_and_values_are_not() {
    let mut block = encode(&[row(b"p", b"a", 1, &[7; 1000])]);
    block[10] = block[10] & !2 | 8; // The codec of the flags: zstd.
    let block = parse(&block).unwrap();
    assert!(block.columns().is_key(0, b"pa") && block.layout().codec == Codec::Zstd);
    if cfg!(not(feature = "zstd")) {
        assert_eq!(block.value(0), Err(Damage(zstandard::LACKING)));
    } else {
        assert_eq!(block.value(0).unwrap(), [7; 1000][..]);
    }
    let mut both = encode(&[row(b"p", b"a", 1, &[7; 1000])]);
    both[10] |= 2 | 8;
    assert!(parse(&both).is_err(), "one codec, not two");
}
