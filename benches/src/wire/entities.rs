//! The entities that servers are asked for: 15 properties of all eight types, 1.1 KB of JSON.

use crate::rows;
use tabulith::env::rng::Rng;

/// The table that is read.
pub const READ: &str = "read";

/// The table that is written.
pub const WRITTEN: &str = "written";

/// Operations of a transaction.
pub const OPERATIONS: u64 = 100;

/// What stands in a request for a number that no other request has.
pub const NUMBER: char = '\u{1}';

/// Digits of that number.
pub const NUMBER_DIGITS: usize = 12;

/// What makes an entity as long as it should be.
const COMMENT: &str = "Nobody answered the door on the first day, so it was brought back to the \
    depot and sent out again the day after; then it was given to the neighbour on the second floor, \
    who signed for it. The box was dented at one corner, what it held was whole. The customer has \
    been told by mail and asks for another time of day for the next order after number";

/// The JSON of entity `i` of the table that is read.
pub fn stored(i: u64) -> String {
    let (pk, rk) = rows::keys(i);
    json(&pk, &rk, i)
}

/// The JSON of an entity whose RowKey holds [`NUMBER`], the `k`th of its transaction.
pub fn fresh(k: u64) -> String {
    json("tenant-000001", &format!("order-{NUMBER}-{k:02}"), k)
}

fn json(pk: &str, rk: &str, i: u64) -> String {
    let mut rng = Rng::seeded(i);
    let mut hex = |digits: usize| -> String {
        (0..digits).map(|_| char::from_digit(rng.below(16) as u32, 16).unwrap_or('0')).collect()
    };
    let guid = format!("{}-{}-4{}-a{}-{}", hex(8), hex(4), hex(3), hex(3), hex(12));
    let binary = hex(64); // Any 64 hexadecimal digits are Base64 of 48 bytes.
    let (token, trace) = (hex(40), hex(32));
    let (seconds, cents) = (i % 60, i % 100);
    let day = 1 + i % 28;
    [
        format!(r#"{{"PartitionKey":"{pk}","RowKey":"{rk}""#),
        format!(r#""Customer":"Customer number {i} of some city""#),
        format!(r#""Address":"{cents} Long Street, near the old market place, second floor""#),
        format!(r#""Comment":"{COMMENT} {i}""#),
        format!(r#""Token":"{token}","Trace":"{trace}""#),
        format!(r#""Count":{},"Weight":{}"#, i % 1000, i % 7),
        format!(r#""Total@odata.type":"Edm.Int64","Total":"{}""#, 9_000_000_000 + i),
        format!(r#""Price":{}.{cents:02}5,"Discount":0.{cents:02}5"#, 10 + i % 90),
        format!(r#""Paid":{},"Shipped":true"#, i.is_multiple_of(2)),
        format!(r#""Ordered@odata.type":"Edm.DateTime","Ordered":"2026-03-{day:02}T10:11:{seconds:02}.1234567Z""#),
        format!(r#""Due@odata.type":"Edm.DateTime","Due":"2026-04-{day:02}T00:00:00Z""#),
        format!(r#""Id@odata.type":"Edm.Guid","Id":"{guid}""#),
        format!(r#""Digest@odata.type":"Edm.Binary","Digest":"{binary}"}}"#),
    ]
    .join(",")
}
