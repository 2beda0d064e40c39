//! A column of a file that says the types of its columns itself.

use crate::edm::EdmType;

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// The type of property that its values become, or why they become none.
    pub(crate) edm: Result<EdmType, String>,
}
