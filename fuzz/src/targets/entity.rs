//! Stored entities: any bytes are properties or `Corrupt`; what is written comes back.

use crate::input::{Input, text};
use tabulith::error::Kind;
use tabulith::internals;
use tabulith::table::value::{DateTime, Value};

/// Reads the input as an entity's bytes, then as a recipe for properties that are written and read.
pub fn entity(data: &[u8]) {
    match internals::read_entity(data) {
        Ok(properties) => written_and_read(&properties),
        Err(error) => assert_eq!(error.kind(), Kind::Corrupt, "{error}"),
    }
    written_and_read(&made(data));
}

fn written_and_read(properties: &[(String, Value)]) {
    let bytes = internals::write_entity(properties);
    let read = internals::read_entity(&bytes).expect("what was written is an entity");
    // Compared as bytes: NaN is not itself.
    assert_eq!(internals::write_entity(&read), bytes, "{properties:?}");
    assert_eq!(read.len(), properties.len());
}

/// Properties of whatever types and values the input asks for.
pub fn made(data: &[u8]) -> Vec<(String, Value)> {
    let mut input = Input::new(data);
    let mut properties: Vec<(String, Value)> = Vec::new();
    while !input.is_empty() && properties.len() < 255 {
        let kind = input.byte();
        let name = text(input.short());
        let value = value(kind, &mut input);
        if properties.iter().all(|(known, _)| *known != name) {
            properties.push((name, value));
        }
    }
    properties
}

fn value(kind: u8, input: &mut Input<'_>) -> Value {
    let number = |input: &mut Input<'_>| u64::from(input.u32()) << 32 | u64::from(input.u32());
    match kind % 8 {
        0 => Value::Binary(input.short().to_vec()),
        1 => Value::Boolean(input.byte() & 1 == 1),
        2 => Value::DateTime(DateTime(number(input) % (DateTime::MAX.0 + 1))),
        3 => Value::Double(f64::from_bits(number(input))),
        4 => Value::Guid(std::array::from_fn(|_| input.byte())),
        5 => Value::Int32(input.u32().cast_signed()),
        6 => Value::Int64(number(input).cast_signed()),
        _ => Value::String(text(input.short())),
    }
}
