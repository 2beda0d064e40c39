//! Rules of failure: which calls of a file system fail, how often, and how.

use std::io;

/// A call of [`crate::vfs::api::Vfs`] or [`crate::vfs::api::File`], by the methods' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `create_dir_all`.
    CreateDir,
    /// `create`.
    Create,
    /// `open` and `open_direct`.
    Open,
    /// `remove`.
    Remove,
    /// `rename`.
    Rename,
    /// `hard_link`.
    HardLink,
    /// `has_other_names`.
    HasOtherNames,
    /// `list`.
    List,
    /// `sync_dir`.
    SyncDir,
    /// `lock`.
    Lock,
    /// `bytes_available`.
    BytesAvailable,
    /// `read_exact_at` and `map`.
    Read,
    /// `write_all_at`, and the writing of `write_synced_at`.
    Write,
    /// `sync`, and the syncing of `write_synced_at`.
    Sync,
    /// `len` and `zeros_from`.
    Len,
    /// `set_len`.
    SetLen,
    /// `reserve`.
    Reserve,
}

impl Call {
    /// Every call there is.
    pub const ALL: [Call; 17] = [
        Call::CreateDir,
        Call::Create,
        Call::Open,
        Call::Remove,
        Call::Rename,
        Call::HardLink,
        Call::HasOtherNames,
        Call::List,
        Call::SyncDir,
        Call::Lock,
        Call::BytesAvailable,
        Call::Read,
        Call::Write,
        Call::Sync,
        Call::Len,
        Call::SetLen,
        Call::Reserve,
    ];
}

/// How the operating system says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
    /// EDQUOT.
    Quota,
    /// EMFILE: the process has too many open.
    TooManyFiles,
    /// ENFILE: all processes together have.
    TooManyFilesOfAll,
    /// EINTR.
    Interrupted,
    /// EAGAIN.
    Again,
    /// ENOENT.
    NotFound,
    /// EEXIST.
    Exists,
    /// EACCES.
    Denied,
    /// EOPNOTSUPP.
    NotSupported,
    /// EINVAL.
    InvalidArgument,
    /// No error of the system: the file ends before all was read, as it does for whoever reads less
    /// than asked for and does not ask again.
    EndOfFile,
}

/// What of a failing call takes effect all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    Nothing,
    Half,
    All,
}

/// Which calls fail, and how.
#[derive(Clone, Debug)]
pub struct Rule {
    call: Option<Call>,
    names: String,
    skip: u64,
    times: u64,
    errno: Errno,
    landing: Landing,
    /// Calls so far that it speaks of.
    met: u64,
}

impl Rule {
    /// The next `call` on any file fails, once, with EIO and without effect.
    pub fn fail(call: Call) -> Rule {
        Rule { call: Some(call), ..Rule::any() }
    }

    /// The next call of any kind fails, once, with EIO and without effect.
    pub fn any() -> Rule {
        Rule {
            call: None,
            names: "*".to_owned(),
            skip: 0,
            times: 1,
            errno: Errno::Io,
            landing: Landing::Nothing,
            met: 0,
        }
    }

    /// Only calls on files or folders whose own name matches: `*` is any text, `?` any character.
    /// Of a rename or link, one of the two names.
    pub fn named(self, pattern: &str) -> Rule {
        Rule { names: pattern.to_owned(), ..self }
    }

    /// Lets `calls` of them pass first.
    pub fn skip(self, calls: u64) -> Rule {
        Rule { skip: calls, ..self }
    }

    /// Lets `calls` of them fail, then heals.
    pub fn times(self, calls: u64) -> Rule {
        Rule { times: calls, ..self }
    }

    /// Never heals.
    pub fn forever(self) -> Rule {
        self.times(u64::MAX)
    }

    /// Fails with this error.
    pub fn with(self, errno: Errno) -> Rule {
        Rule { errno, ..self }
    }

    /// A failing write leaves its first half in the file. Other calls have no halves.
    pub fn half_done(self) -> Rule {
        Rule { landing: Landing::Half, ..self }
    }

    /// The call takes full effect, and only its answer is an error.
    pub fn done(self) -> Rule {
        Rule { landing: Landing::All, ..self }
    }

    /// Counts a call that it speaks of, and says whether that one is to fail.
    pub(crate) fn meets(&mut self, call: Call, names: &[&str]) -> bool {
        let spoken_of = self.call.is_none_or(|mine| mine == call)
            && names.iter().any(|name| matches(self.names.as_bytes(), name.as_bytes()));
        if !spoken_of {
            return false;
        }
        self.met += 1;
        (self.met - 1).checked_sub(self.skip).is_some_and(|nth| nth < self.times)
    }

    /// How a call that it meets fails.
    pub(crate) fn verdict(&self) -> (Errno, Landing) {
        (self.errno, self.landing)
    }
}

impl From<Errno> for io::Error {
    #[cfg(unix)]
    fn from(errno: Errno) -> io::Error {
        use rustix::io::Errno as Os;
        let os = match errno {
            Errno::Io => Os::IO,
            Errno::NoSpace => Os::NOSPC,
            Errno::Quota => Os::DQUOT,
            Errno::TooManyFiles => Os::MFILE,
            Errno::TooManyFilesOfAll => Os::NFILE,
            Errno::Interrupted => Os::INTR,
            Errno::Again => Os::AGAIN,
            Errno::NotFound => Os::NOENT,
            Errno::Exists => Os::EXIST,
            Errno::Denied => Os::ACCESS,
            Errno::NotSupported => Os::OPNOTSUPP,
            Errno::InvalidArgument => Os::INVAL,
            Errno::EndOfFile => return io::ErrorKind::UnexpectedEof.into(),
        };
        os.into()
    }

    #[cfg(not(unix))]
    fn from(errno: Errno) -> io::Error {
        let kind = match errno {
            Errno::Io | Errno::TooManyFiles | Errno::TooManyFilesOfAll => io::ErrorKind::Other,
            Errno::NoSpace => io::ErrorKind::StorageFull,
            Errno::Quota => io::ErrorKind::QuotaExceeded,
            Errno::Interrupted => io::ErrorKind::Interrupted,
            Errno::Again => io::ErrorKind::WouldBlock,
            Errno::NotFound => io::ErrorKind::NotFound,
            Errno::Exists => io::ErrorKind::AlreadyExists,
            Errno::Denied => io::ErrorKind::PermissionDenied,
            Errno::NotSupported => io::ErrorKind::Unsupported,
            Errno::InvalidArgument => io::ErrorKind::InvalidInput,
            Errno::EndOfFile => io::ErrorKind::UnexpectedEof,
        };
        kind.into()
    }
}

/// Whether `pattern` with `*` and `?` describes `name`. Linear but for the number of stars.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on when the text behind the last star does not fit: one byte further.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match retry {
                Some((after_star, from)) => {
                    (p, n) = (after_star, from + 1);
                    retry = Some((after_star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*.wal", "1.wal", true),
            ("*.wal", "1.walx", false),
            ("?OOT-*", "ROOT-A", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
