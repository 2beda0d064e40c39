//! Whether transactions that append to lists and read them could have run one after the other.
//!
//! Each appended element is unique in its list, so that a list tells in which order its writers
//! came; from that follow the edges of a graph: who wrote after whom (ww), who read whom (wr), who
//! read before somebody wrote (rw), who had ended before another began (rt). A cycle is an anomaly,
//! and its edges name its class, by the names of Adya's thesis.
//!
//! What nobody read has no place in a list but behind its end, if it was acknowledged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Puts an element at the end of a list.
    Append(u32, u64),
    /// Finds a list as it is.
    Read(u32, Vec<u64>),
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was told to have happened.
    Committed,
    /// It was told not to have.
    Aborted,
    /// Nobody knows.
    Unknown,
}

/// A transaction as who made it saw it.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Before it was begun.
    pub begin: u64,
    /// After its answer came.
    pub end: u64,
    /// What became of it.
    pub fate: Fate,
    /// What it did, in its order.
    pub steps: Vec<Step>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A read beside the transaction's own appends: something it did is not in it.
    Internal,
    /// An element that nobody appended.
    Garbage,
    /// An element that is in a list twice.
    Twice,
    /// Two reads of which neither begins with the other.
    Torn,
    /// Something of an aborted transaction was read.
    G1a,
    /// A state amid a transaction was read.
    G1b,
    /// Writes in a circle.
    G0,
    /// Writes and reads of them in a circle.
    G1c,
    /// A circle with one read of what another overwrote.
    GSingle,
    /// A circle with several.
    G2,
    /// Circles that close only by who had ended before whom.
    G0Late,
    /// See [`Class::G0Late`].
    G1cLate,
    /// See [`Class::G0Late`]: an acknowledged write that a later read lacks, a stale read.
    GSingleLate,
    /// See [`Class::G0Late`].
    G2Late,
}

/// An anomaly, and what shows it.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// Which.
    pub class: Class,
    /// The transactions, or the reads.
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.class, self.text)
    }
}

/// How much there was to look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Transactions.
    pub transactions: u64,
    /// Elements that were read.
    pub elements: u64,
    /// Edges of the graph, without those of time.
    pub edges: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Ww,
    Wr,
    Rw,
    Rt,
}

/// Checks a history: strictly serializable, or the first anomaly.
pub fn check(history: &[Transaction]) -> Result<Seen, Anomaly> {
    let lists = Lists::of(history)?;
    let graph = Graph::of(history, &lists);
    graph.check(history)?;
    let edges = graph.edges.iter().flatten().filter(|(_, edge)| *edge != Edge::Rt).count() as u64;
    let elements = lists.longest.values().map(|list| list.len() as u64).sum();
    Ok(Seen { transactions: history.len() as u64, elements, edges })
}

fn anomaly<T>(class: Class, text: String) -> Result<T, Anomaly> {
    Err(Anomaly { class, text })
}

/// The lists, and who wrote what is in them.
struct Lists {
    longest: BTreeMap<u32, Vec<u64>>,
    writers: HashMap<(u32, u64), usize>,
    /// Acknowledged appends that nobody read.
    unread: BTreeMap<u32, BTreeSet<usize>>,
}

impl Lists {
    fn of(history: &[Transaction]) -> Result<Lists, Anomaly> {
        let mut writers = HashMap::new();
        // The last element that a transaction appends to a list.
        let mut last = HashMap::new();
        for (n, transaction) in history.iter().enumerate() {
            for step in &transaction.steps {
                if let Step::Append(key, element) = step {
                    let other = writers.insert((*key, *element), n);
                    assert!(other.is_none(), "element {element} is appended twice by the test");
                    last.insert((n, *key), *element);
                }
            }
        }
        let mut longest: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (n, transaction) in history.iter().enumerate() {
            if transaction.fate != Fate::Committed {
                continue;
            }
            for (key, list) in outer_reads(n, transaction)? {
                let mut seen = BTreeSet::new();
                for element in &list {
                    let Some(writer) = writers.get(&(key, *element)) else {
                        return anomaly(
                            Class::Garbage,
                            format!("{n} read {element} in list {key}"),
                        );
                    };
                    if !seen.insert(element) {
                        return anomaly(Class::Twice, format!("{n} read {key} as {list:?}"));
                    }
                    if history[*writer].fate == Fate::Aborted {
                        let text = format!("{n} read {element} of {writer}, which was aborted");
                        return anomaly(Class::G1a, text);
                    }
                }
                if let Some(end) = list.last() {
                    let writer = writers[&(key, *end)];
                    if last[&(writer, key)] != *end {
                        let text = format!("{n} read {key} up to {end}, amid {writer}");
                        return anomaly(Class::G1b, text);
                    }
                }
                let known = longest.entry(key).or_default();
                let (short, long) = if list.len() > known.len() {
                    (known.clone(), list.clone())
                } else {
                    (list.clone(), known.clone())
                };
                if !long.starts_with(&short) {
                    let text = format!("{n} read {key} as {list:?}, another as {known:?}");
                    return anomaly(Class::Torn, text);
                }
                *known = long;
            }
        }
        let mut unread: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        let read: BTreeSet<_> = longest
            .iter()
            .flat_map(|(key, list)| list.iter().map(|element| (*key, *element)))
            .collect();
        for ((key, element), writer) in &writers {
            if history[*writer].fate == Fate::Committed && !read.contains(&(*key, *element)) {
                unread.entry(*key).or_default().insert(*writer);
            }
        }
        Ok(Lists { longest, writers, unread })
    }
}

/// What a transaction read of others: its reads without its own appends, which must be at their
/// ends.
fn outer_reads(n: usize, transaction: &Transaction) -> Result<Vec<(u32, Vec<u64>)>, Anomaly> {
    let mut own: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut found: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut reads = Vec::new();
    for step in &transaction.steps {
        match step {
            Step::Append(key, element) => own.entry(*key).or_default().push(*element),
            Step::Read(key, list) => {
                let own = own.get(key).map_or(&[][..], |own| own);
                let Some(outer) = list.strip_suffix(own) else {
                    let text = format!("{n} read {key} as {list:?} after it appended {own:?}");
                    return anomaly(Class::Internal, text);
                };
                if found.get(key).is_some_and(|before| before != outer) {
                    let text = format!("{n} read {key} as {outer:?} and as {:?}", found[key]);
                    return anomaly(Class::Internal, text);
                }
                found.insert(*key, outer.to_vec());
                reads.push((*key, outer.to_vec()));
            }
        }
    }
    Ok(reads)
}

/// Who came before whom. Behind the transactions stand moments, one for each end.
struct Graph {
    edges: Vec<Vec<(usize, Edge)>>,
}

impl Graph {
    fn of(history: &[Transaction], lists: &Lists) -> Graph {
        let mut graph = Graph { edges: vec![Vec::new(); history.len()] };
        for (key, list) in &lists.longest {
            let writers: Vec<usize> = list.iter().map(|e| lists.writers[&(*key, *e)]).collect();
            for pair in writers.windows(2) {
                graph.add(pair[0], pair[1], Edge::Ww);
            }
            for later in lists.unread.get(key).into_iter().flatten() {
                if let Some(last) = writers.last() {
                    graph.add(*last, *later, Edge::Ww);
                }
            }
        }
        for (n, transaction) in history.iter().enumerate() {
            if transaction.fate != Fate::Committed {
                continue;
            }
            for (key, list) in outer_reads(n, transaction).unwrap_or_default() {
                if let Some(last) = list.last() {
                    graph.add(lists.writers[&(key, *last)], n, Edge::Wr);
                }
                let longest = &lists.longest[&key];
                match longest.get(list.len()) {
                    Some(next) => graph.add(n, lists.writers[&(key, *next)], Edge::Rw),
                    None => {
                        for later in lists.unread.get(&key).into_iter().flatten() {
                            graph.add(n, *later, Edge::Rw);
                        }
                    }
                }
            }
        }
        graph.add_time(history);
        graph
    }

    fn add(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to && !self.edges[from].contains(&(to, edge)) {
            self.edges[from].push((to, edge));
        }
    }

    /// Each end leads to its moment, each moment to the next, and the last moment before a
    /// beginning to what begins there.
    fn add_time(&mut self, history: &[Transaction]) {
        let known = |n: &usize| history[*n].fate == Fate::Committed;
        let mut ends: Vec<_> = (0..history.len()).filter(known).collect();
        ends.sort_by_key(|n| history[*n].end);
        let first = history.len();
        self.edges.resize(first + ends.len(), Vec::new());
        for (at, n) in ends.iter().enumerate() {
            self.edges[*n].push((first + at, Edge::Rt));
            if at > 0 {
                self.edges[first + at - 1].push((first + at, Edge::Rt));
            }
        }
        for (n, transaction) in history.iter().enumerate() {
            let before = ends.partition_point(|end| history[*end].end < transaction.begin);
            if before > 0 && transaction.fate != Fate::Aborted {
                self.edges[first + before - 1].push((n, Edge::Rt));
            }
        }
    }

    fn check(&self, history: &[Transaction]) -> Result<(), Anomaly> {
        use Edge::{Rt, Rw, Wr, Ww};
        let plain = [Class::G0, Class::G1c, Class::GSingle, Class::G2];
        let late = [Class::G0Late, Class::G1cLate, Class::GSingleLate, Class::G2Late];
        for (classes, time) in [(plain, Ww), (late, Rt)] {
            for (class, allowed) in [(classes[0], [Ww, Ww, time]), (classes[1], [Ww, Wr, time])] {
                if let Some(cycle) = self.cycle(&allowed) {
                    return anomaly(class, told(history, &cycle));
                }
            }
            if self.cycle(&[Ww, Wr, Rw, time]).is_none() {
                continue;
            }
            for (from, edges) in self.edges.iter().enumerate() {
                for (to, _) in edges.iter().filter(|(_, edge)| *edge == Rw) {
                    if let Some(mut path) = self.path(*to, from, &[Ww, Wr, time]) {
                        path.push(*to);
                        return anomaly(classes[2], told(history, &path));
                    }
                }
            }
            let cycle = self.cycle(&[Ww, Wr, Rw, time]).unwrap_or_default();
            return anomaly(classes[3], told(history, &cycle));
        }
        Ok(())
    }

    /// A circle over these edges, if there is one: first what has nothing before it falls away,
    /// again and again; what is left has a circle in it.
    fn cycle(&self, allowed: &[Edge]) -> Option<Vec<usize>> {
        let mut before = vec![0_usize; self.edges.len()];
        for (to, edge) in self.edges.iter().flatten() {
            before[*to] += usize::from(allowed.contains(edge));
        }
        let mut free: Vec<usize> = (0..before.len()).filter(|n| before[*n] == 0).collect();
        let mut left = before.len() - free.len();
        while let Some(n) = free.pop() {
            for (to, edge) in &self.edges[n] {
                if allowed.contains(edge) {
                    before[*to] -= 1;
                    if before[*to] == 0 {
                        free.push(*to);
                        left -= 1;
                    }
                }
            }
        }
        if left == 0 {
            return None;
        }
        let on_it = |n: &usize| before[*n] > 0 && self.path(*n, *n, allowed).is_some();
        let start = (0..before.len()).find(on_it)?;
        self.path(start, start, allowed)
    }

    /// The shortest way from one to another, at least one edge long.
    fn path(&self, from: usize, to: usize, allowed: &[Edge]) -> Option<Vec<usize>> {
        let mut came: HashMap<usize, usize> = HashMap::new();
        let mut wave = vec![from];
        while !wave.is_empty() {
            let mut next = Vec::new();
            for n in wave {
                for (step, edge) in &self.edges[n] {
                    if !allowed.contains(edge) || came.contains_key(step) {
                        continue;
                    }
                    came.insert(*step, n);
                    if *step == to {
                        return Some(way_back(&came, from, to));
                    }
                    next.push(*step);
                }
            }
            wave = next;
        }
        None
    }
}

fn way_back(came: &HashMap<usize, usize>, from: usize, to: usize) -> Vec<usize> {
    let mut way = vec![to];
    let mut at = came[&to];
    while at != from {
        way.push(at);
        at = came[&at];
    }
    way.push(from);
    way.reverse();
    way
}

/// The transactions of a circle; moments are left out.
fn told(history: &[Transaction], cycle: &[usize]) -> String {
    let own = cycle.iter().filter_map(|n| history.get(*n).map(|transaction| (n, transaction)));
    let lines = own.map(|(n, transaction)| {
        let Transaction { begin, end, steps, .. } = transaction;
        let steps: Vec<_> = steps.iter().map(shortened).collect();
        format!("\n  {n} ({begin} .. {end}) {}", steps.join(", "))
    });
    lines.collect()
}

fn shortened(step: &Step) -> String {
    match step {
        Step::Append(key, element) => format!("append {element} to {key}"),
        Step::Read(key, list) => match list.as_slice() {
            [.., a, b, c] => format!("read {key}: {} ending in {a} {b} {c}", list.len()),
            few => format!("read {key}: {few:?}"),
        },
    }
}
