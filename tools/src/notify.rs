//! What is told to systemd, by its protocol of datagrams: that the server is ready, that it stops,
//! and now and then that it lives.
//!
//! Absent where `NOTIFY_SOCKET` is: nothing is sent, and nothing fails.

use std::ffi::OsString;
use std::time::Duration;

/// Where to tell it, and how often it wants to hear.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    socket: Option<OsString>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// As the variables of this process say.
    pub(crate) fn of_process() -> Notify {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // Of another process, whose child this one is.
        let is_mine = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|us| is_mine && *us > 0);
        Notify {
            socket: std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    /// How often it is to be told that the server lives: twice as often as it wants to hear.
    pub(crate) fn watchdog_period(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog).map(|time| time / 2)
    }

    /// Sends some lines such as `READY=1`. Who does not listen misses them.
    pub(crate) fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = send(socket, state)
        {
            tracing::warn!(%error, state, "systemd was not told");
        }
    }
}

#[cfg(unix)]
fn send(socket: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::UnixDatagram;
    let own = UnixDatagram::unbound()?;
    // Whoever does not read must not hold the server.
    own.set_nonblocking(true)?;
    match socket.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            own.send_to_addr(state.as_bytes(), &address)?;
        }
        _ => {
            own.send_to(state.as_bytes(), socket)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn send(_: &std::ffi::OsStr, _: &str) -> std::io::Result<()> {
    Ok(())
}
