//! Asks the person before something is gone.

use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// Goes on where the answer is yes, or `yes` was said already. Without a person to ask, one who has
/// not said so has made a mistake.
pub(crate) fn or_end(question: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let why = format!("{question} Nobody is here to answer: --yes does it");
        return Err(Failure::usage(why).into());
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Interrupted, "nothing was done").into()),
    }
}
