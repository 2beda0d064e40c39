//! Entities in the engine's words and in the client's: one into the other, and back.

use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::etag::IfMatch;
use tabulith::table::value::{DateTime, Value};
use tabulith_client as client;

/// An entity as the client writes it.
pub(crate) fn into_client(entity: Entity) -> client::Entity {
    let properties = entity.properties.into_iter();
    client::Entity {
        properties: properties.map(|(name, value)| (name, value_out(value))).collect(),
        ..client::Entity::new(entity.partition_key, entity.row_key)
    }
}

/// An entity that the client has read, or what of it the engine cannot hold.
pub(crate) fn of_client(entity: client::Entity) -> Result<Entity, String> {
    let mut properties = Vec::with_capacity(entity.properties.len());
    for (name, value) in entity.properties {
        let value = value_in(value).map_err(|why| format!("{name}: {why}"))?;
        properties.push((name, value));
    }
    let ts = entity.timestamp.and_then(|moment| u64::try_from(moment.ticks()).ok());
    Ok(Entity {
        ts: ts.map_or(CommitTs::ZERO, CommitTs),
        properties,
        ..Entity::new(entity.partition_key, entity.row_key)
    })
}

/// The commit that an ETag of the engine's kind stands for.
pub(crate) fn commit_of(etag: &client::ETag) -> Option<CommitTs> {
    match IfMatch::parse(etag.as_str()) {
        Ok(IfMatch::Match(tag)) => Some(tag.0),
        _ => None,
    }
}

fn value_out(value: Value) -> client::Value {
    match value {
        Value::Binary(bytes) => client::Value::Binary(bytes),
        Value::Boolean(yes) => client::Value::Boolean(yes),
        Value::DateTime(moment) => client::Value::DateTime(moment_out(moment)),
        Value::Double(number) => client::Value::Double(number),
        Value::Guid(bytes) => client::Value::Guid(bytes),
        Value::Int32(number) => client::Value::Int32(number),
        Value::Int64(number) => client::Value::Int64(number),
        Value::String(text) => client::Value::String(text),
    }
}

fn value_in(value: client::Value) -> Result<Value, String> {
    Ok(match value {
        client::Value::Binary(bytes) => Value::Binary(bytes),
        client::Value::Boolean(yes) => Value::Boolean(yes),
        client::Value::DateTime(moment) => Value::DateTime(moment_in(moment)?),
        client::Value::Double(number) => Value::Double(number),
        client::Value::Guid(bytes) => Value::Guid(bytes),
        client::Value::Int32(number) => Value::Int32(number),
        client::Value::Int64(number) => Value::Int64(number),
        client::Value::String(text) => Value::String(text),
    })
}

/// The engine counts from 1601, the client from 1970; both end with the year 9999.
fn moment_out(moment: DateTime) -> client::DateTime {
    let since_1601 = moment.min(DateTime::MAX).0;
    let ticks = since_1601.cast_signed() - DateTime::UNIX_EPOCH.0.cast_signed();
    client::DateTime::from_ticks(ticks).expect("1601 to 9999 lies within the client's years")
}

fn moment_in(moment: client::DateTime) -> Result<DateTime, String> {
    let ticks = moment.ticks() + DateTime::UNIX_EPOCH.0.cast_signed();
    u64::try_from(ticks).map(DateTime).map_err(|_| format!("{moment} is before 1601"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tabulith::table::etag::ETag;
    use tabulith::table::time;

    #[test]
    fn every_type_comes_back_as_it_was() {
        let moments = [
            "1601-01-01T00:00:00Z",
            "1969-12-31T23:59:59.9999999Z",
            "1970-01-01T00:00:00Z",
            "2021-01-06T01:01:30.9296707Z",
            "9999-12-31T23:59:59.9999999Z",
        ];
        let moments = moments.map(|text| (text, Value::DateTime(time::parse(text).unwrap())));
        let others = [
            ("s", Value::from("é")),
            ("i", Value::from(-1_i32)),
            ("l", Value::from(i64::MIN)),
            ("d", Value::from(0.1)),
            ("b", Value::from(true)),
            ("g", Value::Guid([7; 16])),
            ("x", Value::from(vec![0, 255])),
        ];
        let properties = moments.into_iter().chain(others);
        let entity = Entity {
            properties: properties.map(|(name, value)| (name.to_owned(), value)).collect(),
            ..Entity::new("p", "r")
        };
        let sent = into_client(entity.clone());
        for (text, value) in &sent.properties[..5] {
            assert!(
                matches!(value, client::Value::DateTime(moment) if moment.to_string() == *text)
            );
        }
        assert_eq!(of_client(sent).unwrap(), entity);
    }

    #[test]
    fn what_was_read_has_its_commit() {
        let commit = CommitTs(17_000_000_000_000_001);
        let timestamp = moment_out(DateTime::from(commit));
        let mut read = client::Entity::new("p", "r");
        assert_eq!(of_client(read.clone()).unwrap().ts, CommitTs::ZERO);
        read.timestamp = Some(timestamp);
        assert_eq!(of_client(read).unwrap().ts, commit);
        let etag = client::ETag::new(ETag(commit).to_string());
        assert_eq!(commit_of(&etag), Some(commit));
        assert_eq!(commit_of(&client::ETag::new("W/\"other\"")), None);
    }

    #[test]
    fn a_moment_before_all_others_is_named() {
        let early: client::DateTime = "1600-12-31T23:59:59.9999999Z".parse().unwrap();
        let error = of_client(client::Entity::new("p", "r").with("at", early)).unwrap_err();
        assert_eq!(error, "at: 1600-12-31T23:59:59.9999999Z is before 1601");
    }
}
