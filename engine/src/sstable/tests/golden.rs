//! The bytes of version 1, once and for all. A change here is a change of the format: it needs a
//! new version number, and docs/format.md, which explains these very bytes, changes with it.

use super::*;
use std::fmt::Write;

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        for byte in line {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn version_1_keeps_its_bytes() {
    let mut model = Model::new();
    for (pk, rk, ts, row) in [
        ("a", "item-1", 5, (RowKind::Put, b"new".to_vec())),
        ("a", "item-1", 3, (RowKind::Put, b"old".to_vec())),
        ("a", "item-200000000", 9, (RowKind::Put, b"long".to_vec())),
        ("b", "x", 4, (RowKind::Delete, vec![])),
    ] {
        let key = order::row_key(TableId(1), pk.as_bytes(), rk.as_bytes());
        model.insert((key, Reverse(CommitTs(ts))), row);
    }
    let (file, meta) = build(&model, options(4096, 10, true));
    let bytes = file.bytes();
    let opened = open(&file, &meta, 0).unwrap();
    let footer = opened.footer();
    let at = |stretch: crate::sstable::format::Stretch| stretch.offset as usize;
    let (index, filter, props) = (at(footer.index()), at(footer.row_filter()), at(footer.props()));
    assert_eq!(
        hex(&bytes[..index]),
        "\
0400020004000c00010001010a000000
0a000000030000000000000000000001
00000300080003000b000c0061000169
74656d2d62000178a3a3136831000000
00000000310000000000000032303030
30303030000000000000000011118100
02000601000000000100010003000600
0a000a00306e65776f6c646c6f6e671e
22cdd5
"
    );
    assert_eq!(
        hex(&bytes[index..filter]),
        "\
01000000450000000100010007000100
000000000e0000000e00000000000000
00000000000000016200010000000001
007800000000000000000100000e0000
00000000000000830000000000c3c438
0c
"
    );
    assert_eq!(
        hex(&bytes[filter..props]),
        "\
07000100004084000110100000000000
42200000010000000080000200000000
04040000000000000000000001040000
00000000404020000000000000008000
00c29c26e80700000000000012000040
00000000000000000000000000000000
00000000080000400400000010000001
00004000000100000000010000020000
0000200000209f677820
"
    );
    assert_eq!(
        hex(&bytes[props..]),
        "\
040102010a030904000d000000016100
016974656d2d31080000000162000178
00470d502574626c7461626c65010000
00070000000000000083000000000000
00510000000000000045000000000000
00450000000000000000000000000000
002500000000000000872a5349
"
    );
}
