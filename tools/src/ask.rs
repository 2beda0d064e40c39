//! What commands ask of tables, wherever those are, and how a write is refused.

/// What a query asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The condition; empty takes every row.
    pub(crate) filter: String,
    /// Columns wanted beside the keys and the Timestamp; `None` takes all.
    pub(crate) select: Option<Vec<String>>,
    /// Most rows of a page.
    pub(crate) top: usize,
    /// Whether the plan and the rows examined are wanted.
    pub(crate) explain: bool,
}

/// Why a batch was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// One of its rows is at fault; the others would do.
    Row {
        /// Its place in the batch.
        index: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Something else.
    Failed(anyhow::Error),
}
