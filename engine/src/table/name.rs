//! Names of accounts and tables, and how they become names of the engine's catalogue.
//!
//! The catalogue's name is `account/table` with the table in lower case, because names differ in
//! more than case; the casing given at creation is kept as the table's note.

use std::fmt;

/// An account: 3 to 24 lower-case letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(String);

impl AccountName {
    /// The account of that name.
    pub fn parse(text: &str) -> Result<AccountName, NameError> {
        AccountName::check(text).map(|()| AccountName(text.to_owned()))
    }

    /// Whether a text is the name of an account, or why not.
    pub fn check(text: &str) -> Result<(), NameError> {
        if !(3..=24).contains(&text.chars().count()) {
            return Err(NameError::Length);
        }
        if !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            return Err(NameError::Characters);
        }
        Ok(())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A table: 3 to 63 ASCII letters and digits, first a letter. Case kept, compared without case.
#[derive(Clone, Debug)]
pub struct TableName(String);

impl TableName {
    /// The table of that name. The length is checked before the letters, as Azure does.
    pub fn parse(text: &str) -> Result<TableName, NameError> {
        if !(3..=63).contains(&text.chars().count()) {
            return Err(NameError::Length);
        }
        let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic());
        if !starts_well || !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(NameError::Characters);
        }
        if text.eq_ignore_ascii_case("tables") {
            return Err(NameError::Reserved);
        }
        Ok(TableName(text.to_owned()))
    }

    /// Its text, in the casing it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its text in lower case: equal for equal names.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl PartialEq for TableName {
    fn eq(&self, other: &TableName) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for TableName {}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Too short or too long.
    Length,
    /// Other characters than the allowed ones, or a digit first.
    Characters,
    /// `tables`, in any case, is the collection's own name.
    Reserved,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameError::Length => "the name's length is not within the permissible limits",
            NameError::Characters => "the name contains invalid characters",
            NameError::Reserved => "the name is reserved",
        })
    }
}

impl std::error::Error for NameError {}

/// The start of the catalogue's names of an account.
pub(crate) fn catalog_prefix(account: &AccountName) -> String {
    format!("{account}/")
}

/// The catalogue's name of a table.
pub(crate) fn catalog_name(account: &AccountName, table: &TableName) -> String {
    format!("{account}/{}", table.folded())
}

/// Whether a name of the catalogue is one that accounts' tables have, or is kept for the crate's
/// own tables.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.contains('/') || name.starts_with('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, why: NameError) {
        assert_eq!(TableName::parse(text).err(), Some(why), "{text}");
    }

    #[test]
    fn tables() {
        refused("", NameError::Length);
        refused("tt", NameError::Length);
        refused(&"t".repeat(64), NameError::Length);
        refused("1nvalid", NameError::Characters);
        refused("invalid_table_name", NameError::Characters);
        refused("tabłe", NameError::Characters);
        refused("$metrics", NameError::Characters);
        refused("TABLES", NameError::Reserved);
        for good in ["ttt", "T12", &"t".repeat(63)] {
            assert_eq!(TableName::parse(good).expect("a name").as_str(), good);
        }
    }

    #[test]
    fn names_of_one_table_are_one_name_of_the_catalogue() {
        let account = AccountName::parse("devstoreaccount1").expect("an account");
        let [upper, lower] = ["MyTable", "mytable"].map(|n| TableName::parse(n).expect("a name"));
        assert_eq!(upper, lower);
        assert_eq!(catalog_name(&account, &upper), "devstoreaccount1/mytable");
        assert_eq!(catalog_name(&account, &upper), catalog_name(&account, &lower));
        assert!(is_reserved(&catalog_name(&account, &upper)));
    }

    #[test]
    fn accounts() {
        assert!(AccountName::parse("abc").is_ok());
        assert_eq!(AccountName::parse("ab"), Err(NameError::Length));
        assert_eq!(AccountName::parse("Abc"), Err(NameError::Characters));
        assert_eq!(AccountName::parse("a/b"), Err(NameError::Characters));
    }
}
