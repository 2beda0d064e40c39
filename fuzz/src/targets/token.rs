//! Continuation tokens: what is written is read; anything else is refused.
//!
//! Input: up to the first line end a PartitionKey, then a raw query string.

use crate::input::text;
use tabulith_server::odata::literal::percent_encoded;
use tabulith_server::odata::options::{Params, table_token_encoded, token_encoded};

/// Reads the input as a query string with tokens, and writes and reads tokens of its keys.
pub fn token(data: &[u8]) {
    let given = text(data);
    let (key, query) = given.split_once('\n').unwrap_or(("", &given));
    if let Ok(params) = Params::parse(query) {
        if let Ok(Some((partition_key, row_key))) = params.next_entity() {
            written_and_read(&partition_key, &row_key);
        }
        let _ = params.next_table();
    }
    written_and_read(key, query);
    // A table's name is never blank and holds no control characters.
    let name: String = query.chars().filter(char::is_ascii_alphanumeric).collect();
    let query = format!("NextTableName={}", table_token_encoded(&name, data.len() as u64));
    let next = Params::parse(&query).and_then(|params| params.next_table());
    assert_eq!(next, Ok(Some(name)), "{query}");
}

fn written_and_read(partition_key: &str, row_key: &str) {
    let tokens = [partition_key, row_key].map(token_encoded);
    let escaped = tokens.clone().map(|token| percent_encoded(&token, ""));
    for [partition_token, row_token] in [tokens, escaped] {
        let query = format!("NextPartitionKey={partition_token}&NextRowKey={row_token}");
        let next = Params::parse(&query).and_then(|params| params.next_entity());
        assert_eq!(next, Ok(Some((partition_key.to_owned(), row_key.to_owned()))), "{query}");
    }
}
