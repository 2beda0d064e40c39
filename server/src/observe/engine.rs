//! The engine's numbers as metrics, and whether it takes commits.

use crate::observe::text::{Text, seconds};
use std::fmt;
use tabulith::db::Db;
use tabulith::event::StallReason;
use tabulith::health::Obstacle;
use tabulith::stats::{MemoryStats, Stats};
use tabulith::waits::Waits;

/// What an operator asks of an engine.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Its numbers.
    fn stats(&self) -> Stats;

    /// What keeps it from taking commits, if anything does.
    fn obstacle(&self) -> Option<Obstacle>;
}

impl Engine for Db {
    fn stats(&self) -> Stats {
        Db::stats(self)
    }

    fn obstacle(&self) -> Option<Obstacle> {
        Db::obstacle(self)
    }
}

/// An obstacle in a line, without paths: those are told to the log.
pub fn told(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::ReadOnly => "read-only",
        Obstacle::Log { .. } => "log failed",
        Obstacle::Stalled { reason: StallReason::L0Files, .. } => "stalled: compaction is behind",
        Obstacle::Stalled { reason: StallReason::Memtables, .. } => "stalled: flushes are behind",
        Obstacle::DiskFull { .. } => "disk full",
        _ => "not taking commits",
    }
}

/// Writes the engine's numbers.
pub fn write(stats: &Stats, obstacle: Option<&Obstacle>, text: &mut Text) {
    let ready = u8::from(obstacle.is_none());
    text.gauge("tabulith_engine_takes_commits", "1 where a commit would be taken now.").is(ready);
    write_shape(stats, text);
    write_work(stats, text);
    write_stalls(stats, text);
    write_caches(stats, text);
    write_memory(&stats.memory, text);
    write_scrub(stats, text);
}

fn write_shape(stats: &Stats, text: &mut Text) {
    let levels: Vec<String> = (0..stats.levels.len()).map(|level| level.to_string()).collect();
    let by_level = || levels.iter().zip(&stats.levels);
    let mut family = text.gauge("tabulith_level_files", "Table files by level.");
    for (level, (files, _)) in by_level() {
        family.of(&[("level", level)], files);
    }
    let mut family = text.gauge("tabulith_level_bytes", "Bytes of table files by level.");
    for (level, (_, bytes)) in by_level() {
        family.of(&[("level", level)], bytes);
    }
    let help = "Bytes that have to go down a level before every level is within its target.";
    text.gauge("tabulith_compaction_debt_bytes", help).is(stats.compaction_debt_bytes);
    text.gauge("tabulith_blob_files", "Files of large values.").is(stats.blob_files);
    text.gauge("tabulith_blob_bytes", "Bytes of files of large values.").is(stats.blob_bytes);
    let help = "Bytes of files of large values that rows refer to.";
    text.gauge("tabulith_blob_live_bytes", help).is(stats.blob_live_bytes);
    let help = "Files that are there only because somebody still reads them.";
    text.gauge("tabulith_pinned_files", help).is(stats.pinned_files);
    text.gauge("tabulith_pinned_file_bytes", "Their bytes.").is(stats.pinned_file_bytes);
    let help = "Memtables that wait for their flush.";
    text.gauge("tabulith_sealed_memtables", help).is(stats.sealed_memtables);
    let help = "How far the clock is behind the newest commit.";
    text.gauge("tabulith_clock_behind_seconds", help).is(seconds(stats.clock_behind_us));
    text.gauge("tabulith_snapshots", "Live snapshots.").is(stats.snapshots);
    let help = "Ranges deleted by one record each that still hide rows.";
    text.gauge("tabulith_erasures", help).is(stats.erasures);
}

fn write_work(stats: &Stats, text: &mut Text) {
    let counters = [
        ("tabulith_commits_total", "Commits to the engine.", stats.commits),
        ("tabulith_commit_bytes_total", "Bytes of keys and values in them.", stats.commit_bytes),
        ("tabulith_wal_bytes_total", "Bytes that the log has written.", stats.log_bytes),
        ("tabulith_flushes_total", "Memtables written to files.", stats.flushes),
        ("tabulith_flushed_bytes_total", "Bytes that flushes wrote.", stats.flushed_bytes),
        ("tabulith_compactions_total", "Merges of files.", stats.compactions),
        (
            "tabulith_compaction_parts_total",
            "Parts that merges were done in.",
            stats.compaction_parts,
        ),
        ("tabulith_compaction_moves_total", "Files moved a level down unread.", stats.moves),
        (
            "tabulith_compaction_read_bytes_total",
            "Bytes that merges read.",
            stats.compaction_bytes_read,
        ),
        (
            "tabulith_compaction_written_bytes_total",
            "Bytes that merges wrote.",
            stats.compaction_bytes_written,
        ),
        (
            "tabulith_compaction_dropped_files_total",
            "Files dropped whole, as no row of theirs was alive.",
            stats.dropped_files,
        ),
        ("tabulith_ingested_files_total", "Files that ingests added.", stats.ingested_files),
        (
            "tabulith_table_files_opened_total",
            "Times that a table file's index and filters were read.",
            stats.table_files_opened,
        ),
        ("tabulith_ingested_bytes_total", "Bytes of files ingested.", stats.ingested_bytes),
        (
            "tabulith_background_errors_total",
            "Background jobs that failed; they are tried again.",
            stats.background_errors,
        ),
    ];
    for (name, help, value) in counters {
        text.counter(name, help).is(value);
    }
    let failing = u8::from(stats.last_background_error.is_some());
    let help = "1 where the last background job of its kind failed, or merges go round a file.";
    text.gauge("tabulith_background_failing", help).is(failing);
}

fn write_stalls(stats: &Stats, text: &mut Text) {
    let stalls = &stats.stalls;
    let reasons: [(&str, Waits); 7] = [
        ("l0_slow", stalls.slowed_by_l0),
        ("memtables_slow", stalls.slowed_by_memtables),
        ("l0_stop", stalls.stopped_by_l0),
        ("memtables_stop", stalls.stopped_by_memtables),
        ("log_group_full", stalls.group_full),
        ("log_segment", stalls.log_segment),
        ("partition", stalls.partition),
    ];
    let mut family = text.counter("tabulith_stalls_total", "Waits of commits, by reason.");
    for (reason, waits) in reasons {
        family.of(&[("reason", reason)], waits.times);
    }
    let help = "Time that commits waited, by reason.";
    let mut family = text.counter("tabulith_stall_seconds_total", help);
    for (reason, waits) in reasons {
        family.of(&[("reason", reason)], seconds(waits.us));
    }
    let help = "The longest wait of a commit since the start, by reason.";
    let mut family = text.gauge("tabulith_stall_longest_seconds", help);
    for (reason, waits) in reasons {
        family.of(&[("reason", reason)], seconds(waits.longest_us));
    }
    let help = "From the write of a group of commits to the end of the sync that made it durable.";
    text.histogram("tabulith_wal_sync_seconds", help).times(&[], &stats.log_syncs);
}

fn write_caches(stats: &Stats, text: &mut Text) {
    let reads = [
        ("blocks", stats.cache_hits, stats.cache_misses),
        ("rows", stats.row_cache_hits, stats.row_cache_misses),
    ];
    let mut family = text.counter("tabulith_cache_hits_total", "Reads that a cache answered.");
    for (cache, hits, _) in reads {
        family.of(&[("cache", cache)], hits);
    }
    let mut family = text.counter("tabulith_cache_misses_total", "Reads that it did not.");
    for (cache, _, misses) in reads {
        family.of(&[("cache", cache)], misses);
    }
}

fn write_memory(memory: &MemoryStats, text: &mut Text) {
    let uses = [
        ("memtables", memory.memtables),
        ("log", memory.log),
        ("work", memory.work),
        ("index_and_filters", memory.index_and_filters),
        ("blocks", memory.blocks),
        ("rows", memory.rows),
    ];
    let help = "Bytes that the engine may hold in all.";
    text.gauge("tabulith_memory_budget_bytes", help).is(memory.budget);
    let mut family = text.gauge("tabulith_memory_bytes", "Bytes held, by use.");
    for (what, share) in uses {
        family.of(&[("use", what)], share.bytes);
    }
    family.of(&[("use", "pinned")], memory.pinned);
    let help = "Bytes that each use may hold now.";
    let mut family = text.gauge("tabulith_memory_limit_bytes", help);
    for (what, share) in uses {
        family.of(&[("use", what)], share.bytes_max);
    }
}

fn write_scrub(stats: &Stats, text: &mut Text) {
    let scrub = &stats.scrub;
    let counters = [
        ("tabulith_scrub_passes_total", "Times that all files were read.", scrub.passes),
        ("tabulith_scrub_bytes_total", "Bytes read in search of damage.", scrub.bytes),
        ("tabulith_scrub_finds_total", "Damage found.", scrub.finds),
    ];
    for (name, help, value) in counters {
        text.counter(name, help).is(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_obstacle_tells_a_path() {
        let error = || "sync of /secret/place: EIO".to_owned();
        for obstacle in [
            Obstacle::Log { error: error() },
            Obstacle::Stalled { reason: StallReason::Memtables, error: Some(error()) },
            Obstacle::DiskFull { bytes_available: 7 },
        ] {
            assert!(!told(&obstacle).contains('/'));
            let mut text = Text::default();
            write(&Stats::default(), Some(&obstacle), &mut text);
            let text = text.finish();
            assert!(text.contains("\ntabulith_engine_takes_commits 0\n") && !text.contains("/sec"));
        }
    }
}
