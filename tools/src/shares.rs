//! Shares of the machine that the server takes for each of its uses: memory for requests, and files
//! and memory for as many connections as those are enough for.

use crate::open_files;
use anyhow::Result;
use tabulith::env::memory::bytes_usable;
use tabulith_server::Config;

/// Of the memory that this process may use, for one of the two uses of requests.
const MEMORY_SHARE: usize = 16;
const SHARE_MIB_MIN: usize = 32;
const SHARE_MIB_MAX: usize = 256;

/// Bytes of a use of memory: so many MiB, or a share of what there is.
pub(crate) fn memory_share(asked_mib: Option<u32>) -> Result<usize> {
    let mib = match (asked_mib, bytes_usable() >> 20) {
        (Some(mib), _) => usize::try_from(mib)?,
        (None, 0) => SHARE_MIB_MAX,
        (None, usable_mib) => (usable_mib / MEMORY_SHARE).clamp(SHARE_MIB_MIN, SHARE_MIB_MAX),
    };
    Ok(mib << 20)
}

/// Files that the database has to itself, a quarter of all but so many at least and at most:
/// connections must never keep it from opening one. What connections may not take is its own, too.
/// The program itself has some twenty open.
const FILES_KEPT_MIN: usize = 48;
const FILES_KEPT_MAX: usize = 4_096;
const FILES_OF_PROGRAM: usize = 20;

/// How many of the `connections` that are asked for may be open without taking files from the
/// database, and how many table files may stay open: as many again may be open for a while, and
/// half as many files of large values, and as many of those again for a while.
pub(crate) fn files_allowed(connections: usize) -> (usize, usize) {
    let files = usize::try_from(open_files::raised()).unwrap_or(usize::MAX);
    shares_of(files, connections)
}

fn shares_of(files: usize, connections: usize) -> (usize, usize) {
    let kept = (files / 4).clamp(FILES_KEPT_MIN, FILES_KEPT_MAX);
    let connections = connections.min(files.saturating_sub(kept)).max(1);
    let kept = files.saturating_sub(connections).max(kept);
    (connections, (kept - FILES_OF_PROGRAM) / 3)
}

/// What a connection without TLS takes at most, and some more: 42 KiB where heads are in the
/// buffers of the library, for as long as a body takes that nobody was let in to send, or an answer
/// that nobody takes; and that answer, which needs no place up to 64 KiB.
const CONNECTION_BYTES: usize = 112 << 10;

/// What TLS adds to that: a record whose requests wait to be read and one that has not come whole,
/// of 16 KiB each, and the state of the session. An answer waits encrypted, or as it was made.
const TLS_BYTES: usize = 48 << 10;

/// So many connections are served however little memory there is.
const CONNECTIONS_MIN: usize = 256;

/// How many connections of a server as `config` says have memory, beside a database with so many
/// bytes and beside requests.
pub(crate) fn connections_fitting(config: &Config, database_bytes: usize) -> usize {
    // As much as bodies have is for long heads.
    let of_requests = 2 * config.body_bytes_max + config.answer_bytes_max;
    let given_bytes = database_bytes.saturating_add(of_requests);
    let each_bytes = CONNECTION_BYTES + config.tls.as_ref().map_or(0, |_| TLS_BYTES);
    fitting(bytes_usable(), given_bytes, each_bytes, config.connections_max)
}

/// How many of the `connections` fit, with so many bytes each, into what is not given to other uses
/// of the memory (0: nobody says how much there is).
fn fitting(
    usable_bytes: usize,
    given_bytes: usize,
    each_bytes: usize,
    connections: usize,
) -> usize {
    match usable_bytes {
        0 => connections,
        usable => {
            let most = usable.saturating_sub(given_bytes) / each_bytes;
            connections.min(most.max(CONNECTIONS_MIN))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_connections_may_not_take_are_the_databases() {
        // Files, connections asked for; connections, table files.
        for (files, asked, connections, table_files) in [
            (1_024, 10_000, 768, 78),
            (65_536, 10_000, 10_000, 18_505),
            (65_536, 100_000, 61_440, 1_358),
            (64, 10, 10, 11),
            (8, 10, 1, 9),
        ] {
            assert_eq!(shares_of(files, asked), (connections, table_files), "{files}, {asked}");
        }
    }

    /// 10,000 of them could take three times a memory of 256 MiB, whoever they are from.
    #[test]
    fn connections_are_as_many_as_memory_has_room_for() {
        const MIB: usize = 1 << 20;
        for (usable_mib, given_mib, asked, connections, with_tls) in [
            (0, 896, 10_000, 10_000, 10_000),
            (16_384, 4_864, 10_000, 10_000, 10_000),
            (256, 181, 10_000, 685, 480),
            (256, 181, 600, 600, 480),
            (256, 300, 10_000, 256, 256),
            (256, 300, 10, 10, 10),
        ] {
            let fit = |each| fitting(usable_mib * MIB, given_mib * MIB, each, asked);
            let fit = (fit(CONNECTION_BYTES), fit(CONNECTION_BYTES + TLS_BYTES));
            let expected = (connections, with_tls);
            assert_eq!(fit, expected, "{usable_mib} MiB, {given_mib} given, {asked}");
        }
    }
}
