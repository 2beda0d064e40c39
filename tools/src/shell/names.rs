//! Names that the other side said: of tables, and of properties by table. They are offered for
//! completion and not trusted: what could move a cursor, hide or turn text round is never offered.

use std::collections::{BTreeSet, HashMap};
use tabulith::table::entity::Entity;

/// Most names kept of an account's tables, and of one table's properties.
const NAMES_MAX: usize = 4_096;

/// Most tables whose properties are known.
const TABLES_MAX: usize = 64;

/// Longest name that is offered, in characters: the service's bound.
const NAME_CHARS_MAX: usize = 255;

/// Columns that every entity has.
const COLUMNS: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];

/// Whether a name shows as what it is: no control character, nothing without width, nothing that
/// turns the direction of writing, no blank.
pub(crate) fn is_plain(name: &str) -> bool {
    let odd = |c: char| {
        c.is_control()
            || c.is_whitespace()
            || matches!(
                c,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
            )
    };
    !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.contains(odd)
}

/// Whether a name can stand in a filter or a list as it is.
pub(crate) fn is_identifier(name: &str) -> bool {
    is_plain(name)
        && name.chars().all(is_of_identifiers)
        && !name.starts_with(|c: char| c.is_numeric())
}

/// Whether identifiers have this character.
pub(crate) fn is_of_identifiers(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Names that are known so far.
#[derive(Debug, Default)]
pub(crate) struct Known {
    tables: Option<Vec<String>>,
    /// By the table's name in small letters.
    properties: HashMap<String, Properties>,
}

#[derive(Debug, Default)]
struct Properties {
    /// Whether the table has been asked for some rows.
    sampled: bool,
    names: BTreeSet<String>,
}

impl Known {
    /// The names of the tables, if they have been asked for.
    pub(crate) fn tables(&self) -> Option<&[String]> {
        self.tables.as_deref()
    }

    /// Sets the names of the tables.
    pub(crate) fn set_tables(&mut self, mut names: Vec<String>) {
        names.truncate(NAMES_MAX);
        self.tables = Some(names);
    }

    /// Whether rows of the table have been asked for.
    pub(crate) fn is_sampled(&self, table: &str) -> bool {
        self.properties.get(&table.to_lowercase()).is_some_and(|own| own.sampled)
    }

    /// Rows of the table have been asked for, whether there was an answer or not.
    pub(crate) fn set_sampled(&mut self, table: &str) {
        self.of(table).sampled = true;
    }

    /// Learns the names of what was read from a table.
    pub(crate) fn see<'a>(&mut self, table: &str, entities: impl IntoIterator<Item = &'a Entity>) {
        let properties = entities.into_iter().flat_map(|entity| &entity.properties);
        self.learn(table, properties.map(|(name, _)| name.as_str()));
    }

    /// Learns names of a table's properties.
    pub(crate) fn learn<'a>(&mut self, table: &str, names: impl Iterator<Item = &'a str>) {
        let own = self.of(table);
        for name in names {
            if own.names.len() < NAMES_MAX && !own.names.contains(name) {
                own.names.insert(name.to_owned());
            }
        }
    }

    /// The names of a table's columns as far as they are known.
    pub(crate) fn columns(&self, table: Option<&str>) -> Vec<String> {
        let own = table.and_then(|table| self.properties.get(&table.to_lowercase()));
        let names = own.into_iter().flat_map(|own| own.names.iter().map(String::as_str));
        COLUMNS.into_iter().chain(names).map(str::to_owned).collect()
    }

    /// Tables and rows may have changed: they are asked for again. Names of properties that were
    /// seen stay, for they do no harm.
    pub(crate) fn forget(&mut self) {
        self.tables = None;
        self.properties.values_mut().for_each(|own| own.sampled = false);
    }

    fn of(&mut self, table: &str) -> &mut Properties {
        let table = table.to_lowercase();
        if self.properties.len() >= TABLES_MAX && !self.properties.contains_key(&table) {
            self.properties.clear();
        }
        self.properties.entry(table).or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tabulith::table::value::Value;

    #[test]
    fn what_does_not_show_as_it_is_is_not_offered() {
        for name in ["flights", "Größe", "dep-delay", "it's", "名前", "a$b"] {
            assert!(is_plain(name), "{name}");
        }
        let long = "x".repeat(256);
        for name in [
            "",
            "a b",
            "a\u{1b}[2J",
            "a\u{7}",
            "a\nb",
            "a\u{9b}31m",
            "\u{202e}evil",
            "a\u{200b}",
            &long,
            "\u{feff}a",
            "a\u{7f}",
            "a\u{2028}b",
            "a\u{e0041}",
        ] {
            assert!(!is_plain(name), "{name:?}");
        }
        assert!(is_identifier("dep_delay") && is_identifier("Größe"));
        assert!(!is_identifier("dep-delay") && !is_identifier("1st") && !is_identifier("it's"));
    }

    #[test]
    fn names_are_bounded() {
        let mut known = Known::default();
        let entity = |n: usize| {
            let properties = (0..250).map(|i| (format!("p{}", n * 250 + i), Value::Int32(0)));
            Entity { properties: properties.collect(), ..Entity::new("p", "r") }
        };
        let entities: Vec<Entity> = (0..20).map(entity).collect();
        known.see("T", &entities);
        assert_eq!(known.columns(Some("t")).len(), NAMES_MAX + COLUMNS.len());
        for n in 0..2 * TABLES_MAX {
            known.see(&format!("t{n}"), &entities[..1]);
        }
        assert!(known.properties.len() <= TABLES_MAX);
        known.set_tables((0..10_000).map(|n| n.to_string()).collect());
        assert_eq!(known.tables().unwrap().len(), NAMES_MAX);
    }

    #[test]
    fn what_is_forgotten_is_asked_for_again() {
        let mut known = Known::default();
        known.set_tables(vec!["a".to_owned()]);
        known.set_sampled("A");
        assert!(known.is_sampled("a") && known.tables().is_some());
        known.forget();
        assert!(!known.is_sampled("a") && known.tables().is_none());
        assert_eq!(known.columns(None), COLUMNS);
    }
}
