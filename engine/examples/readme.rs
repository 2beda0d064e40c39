//! The example of README.md, word for word; `cargo dev tidy` holds the two together.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use tabulith::{Db, If};

fn main() -> tabulith::Result<()> {
    let db = Db::open("flights-db")?;
    let delays = db.table("delays")?;

    // One partition changes at once, or not at all.
    let day = delays.partition("JFK-B6");
    let first = day.batch().upsert("0101-0559", "12").upsert("0101-0600", "-3").commit()?;

    // Only if the row is still as that commit left it.
    delays.replace("JFK-B6", "0101-0559", "14", If::Match(first))?;

    for row in day.scan("0101".."0102")?.rev() {
        let row = row?;
        println!("{:?} {:?}", row.row_key, row.value);
    }
    db.close()
}
