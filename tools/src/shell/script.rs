//! Lines without an editor: of flags, of stdin, of files. The first that fails is named, and ends
//! it all unless it was asked to go on.

#![allow(clippy::disallowed_types, reason = "the file is the user's, not the engine's")]

use crate::exit::{self, Exit, Failure};
use crate::print::note;
use crate::shell::session::{Next, Session};
use crate::shell::split::{Joiner, LINE_BYTES_MAX};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

/// Most files that are read one in the other.
const DEPTH_MAX: usize = 16;

/// Where lines come from.
enum Source {
    /// From flags: each is a text of its own.
    Flags(std::vec::IntoIter<String>),
    /// From stdin, which commands may read too: no more is taken than the line.
    Stdin,
    /// From a file of that name.
    File(String, BufReader<File>),
}

/// Lines that are yet to be run.
pub(crate) struct Lines {
    source: Source,
    number: u64,
    joiner: Joiner,
    /// Whether what follows cannot be read, or is no beginning of a line.
    broken: bool,
}

impl Lines {
    /// Those of flags.
    pub(crate) fn of_flags(lines: Vec<String>) -> Lines {
        Lines::new(Source::Flags(lines.into_iter()))
    }

    /// Those of stdin.
    pub(crate) fn of_stdin() -> Lines {
        Lines::new(Source::Stdin)
    }

    /// Those of a file.
    pub(crate) fn of_file(path: &Path) -> Result<Lines> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| name.clone())?;
        Ok(Lines::new(Source::File(name, BufReader::new(file))))
    }

    fn new(source: Source) -> Lines {
        Lines { source, number: 0, joiner: Joiner::default(), broken: false }
    }

    /// What a person calls the line of that number.
    fn name(&self, number: u64) -> String {
        match &self.source {
            Source::Flags(_) => format!("-c {number}"),
            Source::Stdin => format!("line {number}"),
            Source::File(name, _) => format!("{name}:{number}"),
        }
    }

    /// The next line with its number; an error is of the line that was read last.
    fn next(&mut self) -> Result<Option<(u64, String)>> {
        while !self.broken {
            let bytes = self.read().inspect_err(|_| self.broken = true)?;
            let Some(bytes) = bytes else { return Ok(self.joiner.finish()) };
            self.number += 1;
            let Ok(text) = String::from_utf8(bytes) else {
                self.joiner.finish();
                return Err(Failure::usage("it is not UTF-8").into());
            };
            let whole = self.joiner.push(self.number, text.trim_end_matches(['\n', '\r']));
            let whole = whole.inspect_err(|_| self.broken = true)?;
            if whole.is_some() {
                return Ok(whole);
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        match &mut self.source {
            Source::Flags(lines) => Ok(lines.next().map(String::into_bytes)),
            Source::Stdin => Ok(line(&mut io::stdin().lock())?),
            Source::File(name, file) => line(file).with_context(|| name.clone()),
        }
    }
}

/// A line with its end; none at the end of the text. One that is too long is cut, so that it is
/// refused as too long.
fn line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = input.take(LINE_BYTES_MAX as u64 + 2).read_until(b'\n', &mut bytes)?;
    Ok((read > 0).then_some(bytes))
}

/// How lines came to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Played {
    /// That of the first line that failed.
    pub(crate) exit: Exit,
    /// Whether a line has asked to leave.
    pub(crate) left: bool,
}

/// Runs lines up to the first that fails, or all of them.
pub(crate) fn play(
    session: &mut Session,
    lines: Lines,
    keep_going: bool,
    run: impl Fn(&mut Session, &str) -> Result<Next>,
) -> Played {
    let mut first = Exit::Ok;
    let mut stack = vec![lines];
    while let Some(lines) = stack.last_mut() {
        let (number, done) = match lines.next() {
            Ok(Some((number, line))) => (number, run(session, &line)),
            Ok(None) => {
                stack.pop();
                continue;
            }
            Err(error) => (lines.number, Err(error)),
        };
        let name = lines.name(number);
        let done = done.and_then(|next| match next {
            Next::Read(_) if stack.len() >= DEPTH_MAX => {
                Err(Failure::usage(format!("{DEPTH_MAX} files read one another")).into())
            }
            Next::Read(path) => {
                Lines::of_file(&path).map(|lines| stack.push(lines)).map(|()| false)
            }
            next => Ok(next == Next::End),
        });
        match done {
            Ok(true) => return Played { exit: first, left: true },
            Ok(false) => {}
            Err(error) => {
                let exit = exit::of(&error);
                if exit == Exit::Ok {
                    // Nobody reads the output any more. The line has not failed, and the next ones
                    // may do more than print.
                    continue;
                }
                note(&format!("tabulith: {name}: {}", exit::told(&error)));
                first = if first == Exit::Ok { exit } else { first };
                if !keep_going || exit == Exit::Interrupted {
                    return Played { exit: first, left: false };
                }
            }
        }
    }
    Played { exit: first, left: false }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::args::shell::ShellArgs;
    use crate::args::target::TargetArgs;
    use std::cell::RefCell;

    /// What lines ran of those that are given, where `bad` fails and `end` leaves.
    fn played(lines: Lines, keep_going: bool) -> (Played, Vec<String>) {
        let args = ShellArgs {
            command: Vec::new(),
            keep_going,
            output: None,
            target: TargetArgs::default(),
        };
        let ran = RefCell::new(Vec::new());
        let run = |_: &mut Session, line: &str| {
            ran.borrow_mut().push(line.to_owned());
            match line.split_once(' ') {
                Some(("read", path)) => Ok(Next::Read(path.into())),
                _ if line == "unread" => {
                    Err(exit::of_stdout(io::ErrorKind::BrokenPipe.into()).into())
                }
                _ if line.starts_with("bad") => Err(Failure::new(Exit::NotFound, line).into()),
                _ if line == "end" => Ok(Next::End),
                _ => Ok(Next::Line),
            }
        };
        let played = play(&mut Session::new(&args), lines, keep_going, run);
        (played, ran.into_inner())
    }

    fn flags(lines: &[&str]) -> Lines {
        Lines::of_flags(lines.iter().map(|line| (*line).to_owned()).collect())
    }

    #[test]
    fn the_first_failure_ends_it_or_gives_its_code() {
        let lines = ["a", "bad 1", "b", "end", "c"];
        let (ended, ran) = played(flags(&lines), false);
        assert_eq!((ended, ran.len()), (Played { exit: Exit::NotFound, left: false }, 2));
        let (ended, ran) = played(flags(&lines), true);
        assert_eq!((ended, ran.len()), (Played { exit: Exit::NotFound, left: true }, 4));
        let (ended, ran) = played(flags(&["a\\", "b"]), false);
        assert_eq!((ended, ran), (Played { exit: Exit::Ok, left: false }, vec!["ab".to_owned()]));
    }

    /// The lines behind it did not run, and the exit code was 0.
    #[test]
    fn a_line_whose_output_nobody_reads_ends_nothing() {
        let (ended, ran) = played(flags(&["unread", "a", "bad", "b"]), false);
        assert_eq!((ended, ran.len()), (Played { exit: Exit::NotFound, left: false }, 3));
        let (ended, ran) = played(flags(&["a", "unread"]), false);
        assert_eq!((ended, ran.len()), (Played { exit: Exit::Ok, left: false }, 2));
    }

    #[test]
    fn files_are_read_one_in_the_other_and_not_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let outer = format!("a\r\nread {}\nc", path("inner").display());
        std::io::Write::write_all(&mut File::create(path("outer")).unwrap(), outer.as_bytes())
            .unwrap();
        std::io::Write::write_all(&mut File::create(path("inner")).unwrap(), b"b \\\n1\n").unwrap();
        let (ended, mut ran) = played(Lines::of_file(&path("outer")).unwrap(), false);
        ran.retain(|line| !line.starts_with("read"));
        assert_eq!((ended.exit, ran), (Exit::Ok, ["a", "b 1", "c"].map(str::to_owned).to_vec()));
        let own = format!("read {}\n", path("own").display());
        std::io::Write::write_all(&mut File::create(path("own")).unwrap(), own.as_bytes()).unwrap();
        let (ended, ran) = played(Lines::of_file(&path("own")).unwrap(), false);
        assert_eq!((ended.exit, ran.len()), (Exit::Usage, DEPTH_MAX));
        assert_eq!(exit::of(&Lines::of_file(&path("none")).err().unwrap()), Exit::NotFound);
    }

    #[test]
    fn what_is_no_text_is_refused_by_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("odd");
        let mut file = File::create(&path).unwrap();
        std::io::Write::write_all(&mut file, b"a\n\xff\nb\n").unwrap();
        let (ended, ran) = played(Lines::of_file(&path).unwrap(), false);
        assert_eq!((ended.exit, ran), (Exit::Usage, vec!["a".to_owned()]));
        let (ended, ran) = played(Lines::of_file(&path).unwrap(), true);
        assert_eq!((ended.exit, ran), (Exit::Usage, vec!["a".to_owned(), "b".to_owned()]));
        let (ended, ran) = played(Lines::of_file(folder.path()).unwrap(), true);
        assert_eq!((ended.exit, ran), (Exit::Failure, Vec::new()), "a folder");
    }

    #[test]
    fn the_rest_of_a_line_that_is_too_long_is_not_run() {
        let long = format!("{}end\nbad\n", "x".repeat(LINE_BYTES_MAX));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        std::io::Write::write_all(&mut File::create(&path).unwrap(), long.as_bytes()).unwrap();
        let (ended, ran) = played(Lines::of_file(&path).unwrap(), true);
        assert_eq!((ended.exit, ran), (Exit::Usage, Vec::new()));
    }
}
