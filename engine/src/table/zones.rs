//! What the engine's zones are told of entities: each property as a column of 8 bytes in order, and
//! a filter as a question to zones.
//!
//! A property's type and the first 8 bytes of its value, in a form that orders as values do, are
//! all that a zone knows. Promise: a zone is refused only where the filter refuses every entity
//! that the zone may describe, by the rules of `eval`: absent properties, NaN, other types and
//! `not` included.

use crate::ids::CommitTs;
use crate::table::codec::EntityBytes;
use crate::table::filter::ast::{Filter, Op};
use crate::table::keys;
use crate::table::value::{DateTime, Value, ValueRef};
use crate::zone::{Cell, Extract, Zone, ZoneFilter};
use std::collections::HashMap;
use std::ops::BitOr;

// The kinds of zones, which are stored: a form of its own beside that of `codec`, as docs/format.md
// has them.
const BINARY: u8 = 1;
const BOOLEAN: u8 = 2;
const DATE_TIME: u8 = 3;
const DOUBLE: u8 = 4;
const GUID: u8 = 5;
const INT32: u8 = 6;
const INT64: u8 = 7;
const STRING: u8 = 8;
const NAN: u8 = 9;

/// All types of values; those of [`Zone::ANY`] beyond are none.
const KINDS: std::ops::RangeInclusive<u8> = BINARY..=NAN;
/// Their bits in [`Zone::kinds`].
const ALL_KINDS: u16 = (1 << (NAN + 1)) - (1 << BINARY);

/// Takes the properties of stored entities.
#[derive(Debug)]
pub(crate) struct EntityColumns;

impl Extract for EntityColumns {
    fn columns(&self, value: &[u8], each: &mut dyn FnMut(&[u8], Cell)) -> bool {
        // The rows of other tables mostly begin otherwise; no error is made for them.
        if !EntityBytes::begins(value) {
            return false;
        }
        let Ok(entity) = EntityBytes::open(value) else { return false };
        for property in entity.properties() {
            let Ok((name, value)) = property.and_then(|p| Ok((p.name_bytes(), p.value()?))) else {
                return false;
            };
            each(name, cell(value));
        }
        true
    }
}

/// A value's type and prefix.
fn cell(value: ValueRef<'_>) -> Cell {
    let (kind, prefix) = match value {
        ValueRef::Binary(bytes) => (BINARY, head(bytes)),
        ValueRef::Boolean(flag) => (BOOLEAN, flag.into()),
        ValueRef::DateTime(moment) => (DATE_TIME, moment.0),
        ValueRef::Double(number) if number.is_nan() => (NAN, 0),
        ValueRef::Double(number) => (DOUBLE, order_of_double(number)),
        ValueRef::Guid(bytes) => (GUID, head(&bytes)),
        ValueRef::Int32(number) => (INT32, order_of_int(number.into())),
        ValueRef::Int64(number) => (INT64, order_of_int(number)),
        ValueRef::String(text) => (STRING, head_of_text(text)),
    };
    Cell { kind, prefix }
}

fn order_of_int(number: i64) -> u64 {
    number.cast_unsigned() ^ (1 << 63)
}

/// Both zeros are one number.
fn order_of_double(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The first 8 bytes as a number, zeros where there are fewer.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = bytes.len().min(8);
    head[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(head)
}

/// The first 8 bytes in the order of UTF-16.
fn head_of_text(text: &str) -> u64 {
    // 8 characters have 8 bytes at least.
    let end = text.char_indices().nth(8).map_or(text.len(), |(at, _)| at);
    head(&keys::encode(&text[..end]))
}

/// A filter, as a question to zones.
pub(crate) struct FilterZones {
    condition: Condition,
    columns: Vec<String>,
}

/// A filter with the places of its columns.
enum Condition {
    Compare(usize, Op, Literal),
    Flag(usize),
    /// When the row was written.
    Written(Op, Literal),
    Always(bool),
    /// Not a question for zones.
    Open,
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

/// Whether some entity may pass, and whether some may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct May {
    pass: bool,
    fail: bool,
}

const EITHER: May = May { pass: true, fail: true };

impl FilterZones {
    /// The question of `filter`, which must have passed [`Filter::check`]; `None` where zones know
    /// nothing of what it asks.
    pub(crate) fn of(filter: &Filter) -> Option<FilterZones> {
        let mut columns = Columns::default();
        let condition = condition(filter, &mut columns);
        let asks = !columns.names.is_empty() || condition.asks_time();
        asks.then_some(FilterZones { condition, columns: columns.names })
    }
}

impl ZoneFilter for FilterZones {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn may_pass(&self, written: (CommitTs, CommitTs), zones: &[Option<Zone>]) -> bool {
        let (min, max) = (DateTime::from(written.0).0, DateTime::from(written.1).0);
        let written = Zone { kinds: 1 << DATE_TIME, min, max };
        self.condition.may(&written, zones).pass
    }
}

/// The columns that a filter asks of, each once.
#[derive(Default)]
struct Columns<'a> {
    names: Vec<String>,
    places: HashMap<&'a str, usize>,
}

fn condition<'a>(filter: &'a Filter, columns: &mut Columns<'a>) -> Condition {
    let mut column = |name: &'a String| {
        *columns.places.entry(name).or_insert_with(|| {
            columns.names.push(name.clone());
            columns.names.len() - 1
        })
    };
    match filter {
        Filter::Compare { property, op, literal } => match property.as_str() {
            "PartitionKey" | "RowKey" => Condition::Open,
            "Timestamp" => Condition::Written(*op, Literal::of(literal)),
            _ => Condition::Compare(column(property), *op, Literal::of(literal)),
        },
        Filter::Flag(property) => match property.as_str() {
            "PartitionKey" | "RowKey" | "Timestamp" => Condition::Open,
            _ => Condition::Flag(column(property)),
        },
        Filter::Always(value) => Condition::Always(*value),
        Filter::Not(inner) => Condition::Not(Box::new(condition(inner, columns))),
        Filter::And(all) => Condition::And(all.iter().map(|f| condition(f, columns)).collect()),
        Filter::Or(any) => Condition::Or(any.iter().map(|f| condition(f, columns)).collect()),
    }
}

impl Condition {
    fn asks_time(&self) -> bool {
        match self {
            Condition::Written(..) => true,
            Condition::Not(inner) => inner.asks_time(),
            Condition::And(all) | Condition::Or(all) => all.iter().any(Condition::asks_time),
            _ => false,
        }
    }

    fn may(&self, written: &Zone, zones: &[Option<Zone>]) -> May {
        let zone = |column: usize| zones.get(column).copied().flatten();
        match self {
            Condition::Compare(column, op, literal) => {
                zone(*column).map_or(EITHER, |zone| may_hold(&zone, *op, literal))
            }
            Condition::Flag(column) => zone(*column).map_or(EITHER, |zone| may_be_true(&zone)),
            Condition::Written(op, literal) => may_hold(written, *op, literal),
            Condition::Always(value) => May { pass: *value, fail: !value },
            Condition::Open => EITHER,
            Condition::Not(inner) => {
                let May { pass, fail } = inner.may(written, zones);
                May { pass: fail, fail: pass }
            }
            Condition::And(all) => {
                let start = May { pass: true, fail: false };
                all.iter()
                    .map(|inner| inner.may(written, zones))
                    .fold(start, |a, b| May { pass: a.pass && b.pass, fail: a.fail || b.fail })
            }
            Condition::Or(any) => {
                let start = May { pass: false, fail: true };
                any.iter()
                    .map(|inner| inner.may(written, zones))
                    .fold(start, |a, b| May { pass: a.pass || b.pass, fail: a.fail && b.fail })
            }
        }
    }
}

fn may_be_true(zone: &Zone) -> May {
    let (has_flag, is_alone) = (zone.has(BOOLEAN), is_of_one_kind(zone));
    let others = zone.kinds & !(1 << BOOLEAN) != 0;
    May {
        pass: has_flag && (!is_alone || zone.max >= 1),
        fail: others || (has_flag && (!is_alone || zone.min == 0)),
    }
}

fn is_of_one_kind(zone: &Zone) -> bool {
    (zone.kinds & !Zone::ABSENT).is_power_of_two()
}

/// How values of a zone may stand to a literal.
#[derive(Clone, Copy, Debug, Default)]
struct Stands {
    less: bool,
    equal: bool,
    greater: bool,
    /// One of the two is NaN.
    apart: bool,
    absent: bool,
}

impl BitOr for Stands {
    type Output = Stands;

    fn bitor(self, other: Stands) -> Stands {
        Stands {
            less: self.less | other.less,
            equal: self.equal | other.equal,
            greater: self.greater | other.greater,
            apart: self.apart | other.apart,
            absent: self.absent | other.absent,
        }
    }
}

fn may_hold(zone: &Zone, op: Op, literal: &Literal) -> May {
    let mut stands = Stands { absent: zone.kinds & Zone::ABSENT != 0, ..Stands::default() };
    let mut kinds = zone.kinds & ALL_KINDS;
    while kinds != 0 {
        stands = stands | literal.faces(kinds.trailing_zeros() as u8, zone);
        kinds &= kinds - 1;
    }
    let Stands { less, equal, greater, apart, absent } = stands;
    let (pass, fail) = match op {
        Op::Eq => (equal, less | greater | apart),
        Op::Ne => (less | greater | apart, equal),
        Op::Lt => (less, equal | greater | apart),
        Op::Le => (less | equal, greater | apart),
        Op::Gt => (greater, less | equal | apart),
        Op::Ge => (greater | equal, less | apart),
    };
    May { pass, fail: fail | absent }
}

/// A literal, as values of each type are compared with it.
#[derive(Clone, Copy, Debug, Default)]
struct Literal {
    /// Bit `k`: those of type `k` by their prefix. Those of types in neither of the two are less.
    compared: u16,
    /// Bit `k`: those of type `k` are apart from it.
    apart: u16,
    /// Its prefix among doubles, and among values of the other types that are compared.
    double: u64,
    prefix: u64,
}

impl Literal {
    fn of(literal: &Value) -> Literal {
        let mut out = Literal::default();
        for kind in KINDS {
            let Some(widened) = widened(kind, literal) else { continue };
            let cell = cell(ValueRef::from(&widened));
            if kind == NAN || cell.kind == NAN {
                out.apart |= 1 << kind;
                continue;
            }
            out.compared |= 1 << kind;
            *(if kind == DOUBLE { &mut out.double } else { &mut out.prefix }) = cell.prefix;
        }
        out
    }

    /// How values of one type in a zone may stand to it.
    fn faces(&self, kind: u8, zone: &Zone) -> Stands {
        if self.apart >> kind & 1 == 1 {
            return Stands { apart: true, ..Stands::default() };
        }
        if self.compared >> kind & 1 == 0 {
            // A property of another type is less than the literal.
            return Stands { less: true, ..Stands::default() };
        }
        let prefix = if kind == DOUBLE { self.double } else { self.prefix };
        let (min, max) = if is_of_one_kind(zone) { (zone.min, zone.max) } else { (0, u64::MAX) };
        let equal = min <= prefix && prefix <= max;
        // Values that are alike in 8 bytes may differ beyond.
        let cut = equal && matches!(kind, BINARY | GUID | STRING);
        Stands {
            less: min < prefix || cut,
            equal,
            greater: max > prefix || cut,
            ..Stands::default()
        }
    }
}

/// The literal as a value of the type, where the two are compared by their values.
fn widened(kind: u8, literal: &Value) -> Option<Value> {
    Some(match (kind, literal) {
        (INT64, Value::Int32(number)) => Value::Int64((*number).into()),
        (DOUBLE | NAN, Value::Int32(number)) => Value::Double((*number).into()),
        // As `eval` does.
        (DOUBLE | NAN, Value::Int64(number)) => Value::Double(*number as f64),
        (DOUBLE | NAN, Value::Double(_))
        | (BINARY, Value::Binary(_))
        | (BOOLEAN, Value::Boolean(_))
        | (DATE_TIME, Value::DateTime(_))
        | (GUID, Value::Guid(_))
        | (INT32, Value::Int32(_))
        | (INT64, Value::Int64(_))
        | (STRING, Value::String(_)) => literal.clone(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use crate::table::codec;
    use crate::table::entity::Entity;
    use crate::table::filter::eval;

    /// Values of every type near each other and near the literals below, at both ends too.
    fn value(rng: &mut Rng, about: u64) -> Value {
        let near = about + rng.below(4);
        match rng.below(16) {
            0 => Value::Binary(vec![near as u8; rng.below(11) as usize]),
            1 => Value::Boolean(rng.one_in(2)),
            2 => Value::DateTime(DateTime(near)),
            3 => Value::Double(near as f64 - 6.0),
            4 => Value::Double([f64::NAN, -0.0, 0.0, f64::INFINITY, 1e300][rng.below(5) as usize]),
            5 => Value::Guid([near as u8; 16]),
            6..=8 => Value::Int32(near as i32 - 6),
            9..=10 => Value::Int64(near as i64 - 6),
            11 => Value::Int64([i64::MIN, i64::MAX][rng.below(2) as usize]),
            12 => Value::String(
                ["", "\u{ffff}", "\u{1f600}b", "\0"][rng.below(4) as usize].to_owned(),
            ),
            _ => Value::String(format!("{:0>7}{}", near, "x".repeat(rng.below(3) as usize))),
        }
    }

    fn filter(rng: &mut Rng, depth: u64) -> Filter {
        let inner = |rng: &mut Rng| (0..rng.below(4)).map(|_| filter(rng, depth - 1)).collect();
        let name = ["A", "B", "C", "Timestamp"][rng.below(4) as usize];
        match rng.below(if depth == 0 { 5 } else { 9 }) {
            0 => Filter::Flag(name.to_owned()),
            5 => Filter::Not(Box::new(filter(rng, depth - 1))),
            6 => Filter::And(inner(rng)),
            7 => Filter::Or(inner(rng)),
            8 => Filter::Always(rng.one_in(2)),
            _ => {
                let ops = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge];
                let about = rng.below(12);
                let literal = match name {
                    "Timestamp" if !rng.one_in(4) => {
                        Value::DateTime(DateTime(DateTime::UNIX_EPOCH.0 + about))
                    }
                    _ => value(rng, about),
                };
                Filter::compare(name, ops[rng.below(6) as usize], literal)
            }
        }
    }

    /// Entities that have little to do with each other, or mostly the same types and close values.
    fn entities(rng: &mut Rng) -> Vec<Entity> {
        let (about, alike) = (rng.below(12), rng.one_in(2));
        let model = value(rng, about);
        let one = |rng: &mut Rng| {
            let mut entity = Entity::new("p", "r");
            entity.ts = CommitTs(about + rng.below(3));
            for name in ["A", "B"] {
                if rng.one_in(6) {
                    continue;
                }
                let mut value = value(rng, about);
                while alike && std::mem::discriminant(&value) != std::mem::discriminant(&model) {
                    value = self::value(rng, about);
                }
                entity = entity.with(name, value);
            }
            entity
        };
        (0..1 + rng.below(4)).map(|_| one(rng)).collect()
    }

    fn zones_of(entities: &[Entity], columns: &[String]) -> Vec<Option<Zone>> {
        let zone = |column: &String| {
            let mut zone = Zone::default();
            for entity in entities {
                let mut own = Zone { kinds: Zone::ABSENT, min: 0, max: 0 };
                let bytes = codec::encode(&entity.properties);
                assert!(EntityColumns.columns(&bytes, &mut |name, cell| {
                    if name == column.as_bytes() {
                        own = Zone::default().with(cell);
                    }
                }));
                zone = zone.joined(own);
            }
            Some(zone)
        };
        columns.iter().map(zone).collect()
    }

    #[test]
    fn no_entity_that_passes_is_ever_ruled_out() {
        let mut rng = Rng::seeded(14);
        let (mut ruled_out, mut passed) = (0, 0);
        for _ in 0..60_000 {
            let (entities, filter) = (entities(&mut rng), filter(&mut rng, 3));
            let Some(zones) = FilterZones::of(&filter) else { continue };
            let passes = |entity| eval::passes(&filter, entity).expect("in memory");
            let any_passes = entities.iter().any(passes);
            let times = entities.iter().map(|entity| entity.ts);
            let written = times.clone().min().zip(times.max()).expect("one at least");
            let may_pass = zones.may_pass(written, &zones_of(&entities, zones.columns()));
            assert!(may_pass || !any_passes, "{filter} of {entities:?}");
            passed += u32::from(any_passes);
            ruled_out += u32::from(!may_pass);
        }
        assert!(ruled_out > 10_000 && passed > 10_000, "{ruled_out} ruled out, {passed} passed");
    }

    #[test]
    fn close_values_are_told_apart_where_eight_bytes_do() {
        let entity = |n: i32| Entity::new("p", "r").with("A", n).with("B", format!("k{n}"));
        let entities: Vec<_> = (10..20).map(entity).collect();
        let rules_out = |filter: &str, name: &str, op, literal: Value| {
            let zones =
                FilterZones::of(&Filter::compare(name, op, literal)).expect("asks a column");
            let written = (CommitTs::ZERO, CommitTs::MAX);
            let may = zones.may_pass(written, &zones_of(&entities, zones.columns()));
            assert!(!may, "{filter} should rule all of 10 to 19 out");
        };
        rules_out("A eq 20", "A", Op::Eq, Value::Int32(20));
        rules_out("A lt 10", "A", Op::Lt, Value::Int32(10));
        rules_out("A ge 20", "A", Op::Ge, Value::Int32(20));
        rules_out("A gt 5L: an Int32 is less than any Int64", "A", Op::Gt, Value::Int64(5));
        rules_out("B gt 'k19'", "B", Op::Gt, Value::String("k2".to_owned()));
        rules_out("B lt 'k1'", "B", Op::Lt, Value::String("k1".to_owned()));
        rules_out("C ne 0: nobody has C", "C", Op::Ne, Value::Int32(0));
    }
}
