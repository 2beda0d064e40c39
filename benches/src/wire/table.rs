//! Results as Markdown: one line for each thing that was asked for, the servers side by side.

use crate::wire::ask::Proof;
use crate::wire::servers::Kind;
use crate::wire::wrk::Run;
use std::collections::BTreeMap;
use tabulith_results::runs;

/// Threads that write when the engine is alone.
pub const ENGINE_WRITERS: usize = 16;

/// One line of the table: what, over how many connections, with which proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// What is asked for.
    pub what: What,
    /// Over how many connections.
    pub connections: usize,
    /// How requests are signed.
    pub proof: Proof,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// One entity by its keys.
    Get,
    /// A new entity.
    Insert,
    /// A transaction of 100 new entities.
    Transaction,
    /// A page of a scan of the whole table.
    Scan,
}

impl What {
    /// All of them.
    pub const ALL: [What; 4] = [What::Get, What::Insert, What::Transaction, What::Scan];

    /// As tables show it.
    pub fn name(self) -> &'static str {
        match self {
            What::Get => "get",
            What::Insert => "insert",
            What::Transaction => "transaction of 100",
            What::Scan => "page of 1,000",
        }
    }
}

/// All runs: of servers, of bare servers that answer as many bytes.
#[derive(Debug, Default)]
pub struct Runs {
    /// Of the servers of tables.
    pub servers: BTreeMap<(Line, Kind), Vec<Run>>,
    /// Of bare ones.
    pub bare: BTreeMap<(What, usize), Vec<Run>>,
}

/// The median of one figure over all runs.
fn median(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    runs::median(&mut figures).unwrap_or(f64::NAN)
}

impl Runs {
    /// Requests per second, CPU and latency of each line, the servers below each other.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| what | connections | proof | server | requests/s | min to max | server's CPU us | \
             requests per CPU-second | of Azurite, memory | p50 us | p99 us | bytes |\n\
             |---|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for what in What::ALL {
            for ((line, kind), runs) in self.servers.iter().filter(|((l, _), _)| l.what == what) {
                let peer = self.servers.get(&(*line, Kind::AzuriteMemory));
                let ratio =
                    peer.map(|peer| median(peer, |r| r.cpu_us) / median(runs, |r| r.cpu_us));
                text.push_str(&row(
                    what,
                    line.connections,
                    line.proof.name(),
                    kind.name(),
                    runs,
                    ratio,
                ));
            }
            for ((_, connections), runs) in self.bare.iter().filter(|((w, _), _)| *w == what) {
                text.push_str(&row(what, *connections, "none", "bare hyper", runs, None));
            }
        }
        text
    }

    /// The goals that can be read off these runs, with what each line reached.
    pub fn goals(&self, entities_per_page: f64, engine: &[f64]) -> String {
        let mut text = String::from("| goal | reached |\n|---|--:|\n");
        let mut goal = |name: &str, proof: Proof, reached: f64| {
            text.push_str(&format!("| {name}, {} | {reached:.2} |\n", proof.name()));
        };
        for proof in Proof::ALL {
            for connections in self.connections() {
                let ours = |what| {
                    let line = Line { what, connections, proof };
                    self.servers.get(&(line, Kind::Tabulith)).map_or(&[][..], Vec::as_slice)
                };
                if let Some(bare) = self.bare.get(&(What::Get, connections)) {
                    let share = median(ours(What::Get), |r| r.rate) / median(bare, |r| r.rate);
                    goal(&format!("get of bare hyper by {connections} (0.6)"), proof, share);
                }
                if connections == ENGINE_WRITERS
                    && let Some(engine) = runs::median(&mut engine.to_vec())
                {
                    let share = median(ours(What::Insert), |r| r.rate) / engine;
                    goal("inserts of the engine alone by 16 writers (0.6)", proof, share);
                }
                let scan = entities_per_page / median(ours(What::Scan), |r| r.cpu_us) / 0.4;
                goal(&format!("scan by {connections}, of 400,000/s a core (1)"), proof, scan);
                for kind in [Kind::AzuriteMemory, Kind::AzuriteDisk] {
                    let ratio = |what| {
                        let line = Line { what, connections, proof };
                        let peer = self.servers.get(&(line, kind))?;
                        let ours = median(ours(what), |r| r.cpu_us);
                        Some(median(peer, |r| r.cpu_us) / ours)
                    };
                    let least = What::ALL.into_iter().filter_map(ratio).min_by(f64::total_cmp);
                    if let Some(least) = least {
                        let name = format!(
                            "least per CPU-second by {connections}, of {} (10)",
                            kind.name()
                        );
                        goal(&name, proof, least);
                    }
                }
            }
        }
        text
    }

    fn connections(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.servers.keys().map(|(line, _)| line.connections).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn row(
    what: What,
    connections: usize,
    proof: &str,
    server: &str,
    runs: &[Run],
    ratio: Option<f64>,
) -> String {
    let rates = || runs.iter().map(|run| run.rate);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let cpu_us = median(runs, |run| run.cpu_us);
    format!(
        "| {} | {connections} | {proof} | {server} | {:.0} | {least:.0} to {most:.0} | {cpu_us:.1} \
         | {:.0} | {} | {:.0} | {:.0} | {:.0} |\n",
        what.name(),
        median(runs, |run| run.rate),
        1e6 / cpu_us,
        ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.1}")),
        median(runs, |run| run.p50_us),
        median(runs, |run| run.p99_us),
        median(runs, |run| run.bytes),
    )
}
