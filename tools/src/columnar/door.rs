//! What other files use of Parquet, in every build.
//!
//! Promise: a build without the feature says so where it is given such a file or asked for one.

pub(crate) use built::{Reader, Survey};

/// The first bytes of a file of Parquet.
pub(crate) const MAGIC: [u8; 4] = *b"PAR1";

/// What a build without the feature says.
#[cfg(not(feature = "parquet"))]
const LACKING: &str = "this build cannot read or write Parquet (cargo feature `parquet`)";

#[cfg(feature = "parquet")]
mod built {
    pub(crate) use crate::columnar::read::Reader;
    pub(crate) use crate::columnar::write::Survey;
}

#[cfg(not(feature = "parquet"))]
mod built {
    use crate::columnar::column::Column;
    use crate::columnar::door::LACKING;
    use crate::exit::Failure;
    use anyhow::Result;
    use std::convert::Infallible;
    use std::io::Write;
    use std::marker::PhantomData;
    use std::path::Path;
    use tabulith::table::entity::Entity;
    use tabulith::table::value::Value;

    /// Reads a file; there is none.
    pub(crate) enum Reader {}

    impl Reader {
        pub(crate) fn open(path: &Path) -> Result<Reader> {
            Err(Failure::usage(format!("{}: {LACKING}", path.display())).into())
        }

        pub(crate) fn columns(&self) -> &[Column] {
            match *self {}
        }

        pub(crate) fn rows(&self) -> u64 {
            match *self {}
        }

        pub(crate) fn next(&mut self) -> Result<Option<Result<Vec<Option<Value>>, String>>> {
            match *self {}
        }
    }

    /// Looks at all rows before they are written; there is none.
    pub(crate) enum Survey {}

    impl Survey {
        pub(crate) fn begin() -> Result<Survey> {
            Err(Failure::usage(LACKING).into())
        }

        pub(crate) fn add(&mut self, _: &Entity) -> Result<()> {
            match *self {}
        }

        pub(crate) fn writer<W: Write + Send>(self, _: W) -> Result<Writer<W>> {
            match self {}
        }
    }

    /// Writes a file; there is none.
    pub(crate) enum Writer<W> {
        #[allow(dead_code, reason = "no value of it can be")]
        Of(Infallible, PhantomData<W>),
    }

    impl<W: Write + Send> Writer<W> {
        pub(crate) fn add(&mut self, _: &Entity) -> Result<()> {
            match self {
                Writer::Of(never, _) => match *never {},
            }
        }

        pub(crate) fn finish(self) -> Result<u64> {
            match self {
                Writer::Of(never, _) => match never {},
            }
        }
    }
}
