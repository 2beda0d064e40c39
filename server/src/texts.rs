//! Texts that are read anew while the server serves, such as a file of accounts.
//!
//! Absent: files. Whoever starts the server says how a text is read.

use crate::limits::TEXT_BYTES_MAX;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Reads a text.
type Read = dyn Fn() -> io::Result<String> + Send + Sync;

/// Where a text is read, as often as it is asked for.
#[derive(Clone)]
pub struct TextSource {
    name: String,
    read: Arc<Read>,
}

impl TextSource {
    /// One that `read` reads. `name` is for messages.
    pub fn new(
        name: impl Into<String>,
        read: impl Fn() -> io::Result<String> + Send + Sync + 'static,
    ) -> TextSource {
        TextSource { name: name.into(), read: Arc::new(read) }
    }

    /// The text as it is now. Errors name the source.
    pub fn read(&self) -> io::Result<String> {
        let text = (self.read)()
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name)))?;
        if text.len() > TEXT_BYTES_MAX {
            return Err(self.invalid(&"it is too long"));
        }
        Ok(text)
    }

    /// An error about what the text says.
    pub fn invalid(&self, error: &dyn fmt::Display) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", self.name))
    }
}

/// Its name: the text may be a secret.
impl fmt::Debug for TextSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextSource({})", self.name)
    }
}
