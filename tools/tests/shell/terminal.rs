//! The program at a terminal, as a person has it: keys go in, what the screen gets comes out. The
//! terminal is made by `script` of util-linux.

use crate::common::{PATIENCE, Place};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

/// A terminal in which the program runs.
pub(crate) struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    /// What the screen gets, piece by piece, until it ends.
    screen: mpsc::Receiver<Vec<u8>>,
    /// What the screen has got.
    pub(crate) seen: Vec<u8>,
    /// Where it has been looked at.
    looked: usize,
}

impl Terminal {
    /// Runs `tabulith` with words at a terminal; none where there is no `script` as Linux has it.
    pub(crate) fn start(place: &Place, words: &[&str]) -> Option<Terminal> {
        let version = Command::new("script").arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if !version.unwrap_or_default().contains("util-linux") {
            println!(
                "skipped: the shell at a terminal, because `script` of util-linux is not here"
            );
            return None;
        }
        let quoted: Vec<String> = std::iter::once(env!("CARGO_BIN_EXE_tabulith"))
            .chain(words.iter().copied())
            .map(|word| format!("'{word}'"))
            .collect();
        let mut command = Command::new("script");
        // The shell that `script` starts becomes the program: it would take a Ctrl-C for its own
        // end.
        let run = format!("exec {}", quoted.join(" "));
        command.args(["--quiet", "--return", "--command", &run, "/dev/null"]);
        command.current_dir(place.path(".")).env_clear().env("XDG_STATE_HOME", place.path("state"));
        command.env("TERM", "xterm").env("SHELL", "/bin/sh").env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (keys, screen) = (child.stdin.take(), child.stdout.take().unwrap());
        let screen = pieces(screen);
        Some(Terminal { child, keys, screen, seen: Vec::new(), looked: 0 })
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        let input = self.keys.as_mut().unwrap();
        input.write_all(keys.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits until the screen gets a text behind what was waited for last.
    #[track_caller]
    pub(crate) fn wait(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rest = &self.seen[self.looked..];
            if let Some(at) = rest.windows(text.len()).position(|window| window == text.as_bytes())
            {
                self.looked += at + text.len();
                return;
            }
            let ended = self.more(deadline);
            assert!(!ended, "`{text}` did not come, and the shell ended: {}", self.shown());
        }
    }

    /// Takes what the screen gets next. Returns whether that was the end; fails at the deadline.
    #[track_caller]
    fn more(&mut self, deadline: Instant) -> bool {
        match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(piece) => self.seen.extend(piece),
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {
                panic!("nothing more for {PATIENCE:?}; on the screen so far: {}", self.shown())
            }
        }
        false
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits until the next line may be typed, behind the prompt of that name. The screen is told
    /// of pasted text once a line, so that a prompt that is only drawn again is not taken for it.
    #[track_caller]
    pub(crate) fn prompt(&mut self, name: &str) {
        self.wait("\u{1b}[?2004h");
        self.wait(&format!("{name}> "));
    }

    /// Waits for the end; gives the exit code.
    #[track_caller]
    pub(crate) fn end(mut self) -> (i32, Vec<u8>) {
        let deadline = Instant::now() + PATIENCE;
        while !self.more(deadline) {}
        drop(self.keys.take());
        (self.child.wait().unwrap().code().unwrap_or(-1), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads on a thread of its own, so that whoever waits for the next piece can stop waiting.
fn pieces(mut screen: ChildStdout) -> mpsc::Receiver<Vec<u8>> {
    let (send, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(read @ 1..) = screen.read(&mut buffer) {
            if send.send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}
