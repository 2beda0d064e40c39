//! Lines of a person at a terminal: edited, completed, kept.

use crate::exit::{self, Exit};
use crate::import::resume;
use crate::print::note;
use crate::shell::complete::Tree;
use crate::shell::history;
use crate::shell::names::is_plain;
use crate::shell::script::{self, Lines};
use crate::shell::session::{Next, Session};
use crate::shell::split::{Joiner, goes_on};
use anyhow::{Context as _, Result};
use rustyline::completion::Completer;
use rustyline::config::{BellStyle, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, Config, Context, Editor, Helper};
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use tokio::runtime::Runtime;

/// Lines that are kept.
const HISTORY_LINES_MAX: usize = 1_000;

/// What lines, and the completion of them, work on.
pub(crate) struct Shared {
    /// Where commands run.
    pub(crate) runtime: Runtime,
    /// The session.
    pub(crate) session: RefCell<Session>,
}

/// Reads lines and runs them until the person leaves.
pub(crate) fn talk(
    shared: &Rc<Shared>,
    run: impl Fn(&mut Session, &str) -> Result<Next> + Copy,
) -> Result<Exit> {
    let mut editor = editor(shared).context("the terminal")?;
    let history = history::file().filter(|path| make_folder(path));
    if let Some(path) = &history {
        // There is none in the beginning; one that cannot be read is begun anew.
        let _ = editor.load_history(path);
    }
    loop {
        let prompt = prompt(shared.session.borrow().table());
        let text = match editor.readline(&prompt) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(Exit::Ok),
            Err(error) => return Err(error).context("the terminal"),
        };
        let mut joiner = Joiner::default();
        for line in text.lines().chain([""]) {
            let line = match joiner.push(0, line) {
                Ok(Some((_, line))) => line,
                Ok(None) => continue,
                Err(error) => {
                    note(&format!("tabulith: {}", exit::told(&error)));
                    break;
                }
            };
            keep(&mut editor, history.as_deref(), &line);
            if one(&mut shared.session.borrow_mut(), &line, run) {
                return Ok(Exit::Ok);
            }
        }
    }
}

/// Runs a line, tells what went wrong; whether it was the last one.
fn one(
    session: &mut Session,
    line: &str,
    run: impl Fn(&mut Session, &str) -> Result<Next> + Copy,
) -> bool {
    let lines = match run(session, line) {
        Ok(Next::Line) => return false,
        Ok(Next::End) => return true,
        Ok(Next::Read(path)) => Lines::of_file(&path),
        Err(error) => Err(error),
    };
    match lines {
        Ok(lines) => script::play(session, lines, false, run).left,
        Err(error) => {
            note(&format!("tabulith: {}", exit::told(&error)));
            exit::of(&error) == Exit::Ok
        }
    }
}

fn prompt(table: Option<&str>) -> String {
    format!("{}> ", table.filter(|table| is_plain(table)).unwrap_or("tabulith"))
}

fn editor(shared: &Rc<Shared>) -> rustyline::Result<Editor<Assistant, FileHistory>> {
    let colours = std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty());
    let config = Config::builder()
        .max_history_size(HISTORY_LINES_MAX)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .bell_style(BellStyle::None)
        .color_mode(if colours { ColorMode::Enabled } else { ColorMode::Disabled })
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant { shared: shared.clone(), tree: Tree::new() }));
    Ok(editor)
}

/// Makes the folder of the history; whether it is there.
fn make_folder(path: &Path) -> bool {
    path.parent().is_some_and(|folder| resume::make_folder(folder).is_ok())
}

/// Keeps a line, unless it holds a secret. A history that cannot be written is no reason to stop.
fn keep(editor: &mut Editor<Assistant, FileHistory>, file: Option<&Path>, line: &str) {
    if history::may_keep(line)
        && matches!(editor.add_history_entry(line), Ok(true))
        && let Some(path) = file
    {
        let _ = editor.append_history(path);
    }
}

/// What the editor asks while a line is typed.
struct Assistant {
    shared: Rc<Shared>,
    tree: Tree,
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let Ok(mut session) = self.shared.session.try_borrow_mut() else {
            return Ok((pos, Vec::new()));
        };
        let wish = self.tree.wish(line.get(..pos).unwrap_or_default(), session.table());
        let names = self.shared.runtime.block_on(session.names(&wish.names));
        Ok((wish.start, wish.offers(&names)))
    }
}

/// What may follow a command; it is only shown.
struct Usage(String);

impl Hint for Usage {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Assistant {
    type Hint = Usage;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<Usage> {
        (pos == line.len()).then(|| self.tree.usage(line))?.map(Usage)
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\u{1b}[2m{hint}\u{1b}[0m"))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match goes_on(context.input()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_harmless() {
        assert_eq!(prompt(None), "tabulith> ");
        assert_eq!(prompt(Some("flights")), "flights> ");
        assert_eq!(prompt(Some("a\u{1b}[2J")), "tabulith> ");
    }
}
