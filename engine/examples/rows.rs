//! Byte rows: batches within a partition, conditions, scans from either end, a snapshot.
//!
//! `cargo run -p tabulith --example rows [FOLDER]`

use tabulith::{Db, If, Kind};

fn main() -> tabulith::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "example-rows".into());
    let db = Db::open(&folder)?;
    let orders = db.table("orders")?;

    // A batch is one partition by type; it happens as a whole and is durable on return.
    let tenant = orders.partition("tenant-7");
    let ts = tenant.batch().upsert("0001", "3 apples").upsert("0002", "1 pear").commit()?;
    let before = db.snapshot()?;

    // Optimistic concurrency: the second writer read a state that is gone.
    orders.replace("tenant-7", "0001", "4 apples", If::Match(ts))?;
    let refused = orders.replace("tenant-7", "0001", "5 apples", If::Match(ts));
    assert_eq!(refused.map_err(|error| error.kind()), Err(Kind::Changed));

    for row in tenant.scan("0000".."9999")?.rev() {
        let row = row?;
        show(&row.row_key, &row.value);
    }
    if let Some(row) = before.get(&orders, "tenant-7", "0001")? {
        show(b"0001 in the snapshot", &row.value);
    }
    db.close()
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(key: &[u8], value: &[u8]) {
    println!("{}: {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
}
