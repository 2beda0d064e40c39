//! Sets of (PartitionKey, RowKey): which partitions, and in each which rows. What a filter says
//! about the keys becomes such a set; it is widened only where it would be too large.

use crate::table::spans::{Span, SpanMap, Spans};
use std::sync::Arc;

/// Most spans of rows of a set: it then takes about 2 MB.
const SPANS_MAX: usize = 10_000;

/// Most spans touched while one filter is planned: some 30 ms.
const WORK_MAX: usize = 1_000_000;

/// For each partition of some spans, the rows; never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySet(SpanMap<Arc<Spans>>);

impl KeySet {
    pub(crate) fn all() -> KeySet {
        KeySet::boxed(&Spans::all(), Spans::all())
    }

    pub(crate) fn none() -> KeySet {
        KeySet(SpanMap::none())
    }

    /// Every row of `rows` in every partition of `partitions`.
    pub(crate) fn boxed(partitions: &Spans, rows: Spans) -> KeySet {
        if rows.pieces().is_empty() {
            return KeySet::none();
        }
        KeySet(partitions.with(&Arc::new(rows)))
    }

    /// The keys of both and no others, however much work it takes: for sets of which one is small.
    pub(crate) fn and(&self, other: &KeySet) -> KeySet {
        KeySet(self.0.merged(&other.0, both_rows))
    }

    /// Spans of partitions with the rows of each, in order and apart.
    pub(crate) fn pieces(&self) -> &[(Span, Arc<Spans>)] {
        self.0.pieces()
    }

    /// How many spans of rows it has.
    pub(crate) fn len(&self) -> usize {
        self.pieces().iter().map(|(_, rows)| rows.pieces().len()).sum()
    }

    /// A wider set with one span of rows for each span of partitions.
    fn with_rows_joined(&self) -> KeySet {
        KeySet(self.0.map(|rows| match rows.hull() {
            Some(span) if rows.pieces().len() > 1 => Arc::new(SpanMap::one(span, ())),
            _ => rows.clone(),
        }))
    }

    /// A wider set with one span of partitions and one span of rows.
    fn joined(&self) -> KeySet {
        let Some(partitions) = self.0.hull() else {
            return KeySet::none();
        };
        let rows = self.pieces().iter().fold(Spans::none(), |hull, (_, rows)| {
            let both = rows.hull().map_or(Spans::none(), |span| hull.or(&SpanMap::one(span, ())));
            both.hull().map_or(both, |span| SpanMap::one(span, ()))
        });
        KeySet(SpanMap::one(partitions, Arc::new(rows)))
    }
}

/// A set, and whether it is just what was asked for rather than a wider one.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) keys: KeySet,
    pub(crate) exact: bool,
}

/// Combines sets with a bound on the work.
#[derive(Debug)]
pub(crate) struct Combiner {
    work_left: usize,
    spans_max: usize,
}

/// What one map's value becomes with another's.
type MergeRows = fn(Option<&Arc<Spans>>, Option<&Arc<Spans>>) -> Option<Arc<Spans>>;

impl Combiner {
    pub(crate) fn new() -> Combiner {
        Combiner::within(WORK_MAX, SPANS_MAX)
    }

    /// One that touches at most `work_max` spans and makes no set of more than `spans_max`.
    pub(crate) fn within(work_max: usize, spans_max: usize) -> Combiner {
        Combiner { work_left: work_max, spans_max }
    }

    /// The keys of all of `sets`, or more.
    pub(crate) fn all_of(&mut self, sets: Vec<Bounds>) -> Bounds {
        self.reduce(sets, KeySet::all(), both_rows)
    }

    /// The keys of any of `sets`, or more.
    pub(crate) fn any_of(&mut self, sets: Vec<Bounds>) -> Bounds {
        self.reduce(sets, KeySet::none(), either_rows)
    }

    /// Combines neighbours, round after round, so that n small sets cost n log n.
    fn reduce(&mut self, mut sets: Vec<Bounds>, neutral: KeySet, merge: MergeRows) -> Bounds {
        while sets.len() > 1 {
            let mut round = Vec::with_capacity(sets.len().div_ceil(2));
            let mut rest = sets.into_iter();
            while let Some(a) = rest.next() {
                round.push(match rest.next() {
                    Some(b) => self.combine(&a, &b, merge),
                    None => a,
                });
            }
            sets = round;
        }
        sets.pop().unwrap_or(Bounds { keys: neutral, exact: true })
    }

    /// Both sets as one: as they are, or else with fewer spans of rows, or else of partitions.
    fn combine(&mut self, a: &Bounds, b: &Bounds, merge: MergeRows) -> Bounds {
        if let Some(keys) = self.try_combine(&a.keys, &b.keys, merge) {
            return Bounds { keys, exact: a.exact && b.exact };
        }
        let (rows_a, rows_b) = (a.keys.with_rows_joined(), b.keys.with_rows_joined());
        let keys = self.try_combine(&rows_a, &rows_b, merge).unwrap_or_else(|| {
            KeySet(a.keys.joined().0.merged(&b.keys.joined().0, merge)).joined()
        });
        Bounds { keys, exact: false }
    }

    /// Both sets as one, unless that takes more work than is left or gives too large a set.
    fn try_combine(&mut self, a: &KeySet, b: &KeySet, merge: MergeRows) -> Option<KeySet> {
        let mut work_left = self.work_left.checked_sub(a.pieces().len() + b.pieces().len());
        let merged = a.0.merged(&b.0, |a, b| {
            let len = |rows: Option<&Arc<Spans>>| rows.map_or(0, |rows| rows.pieces().len());
            work_left = work_left.and_then(|left| left.checked_sub(len(a) + len(b)));
            work_left.and_then(|_| merge(a, b))
        });
        self.work_left = work_left.unwrap_or(0);
        let keys = KeySet(merged);
        (work_left.is_some() && keys.len() <= self.spans_max).then_some(keys)
    }
}

fn both_rows(a: Option<&Arc<Spans>>, b: Option<&Arc<Spans>>) -> Option<Arc<Spans>> {
    let (a, b) = (a?, b?);
    if a.is_all() || Arc::ptr_eq(a, b) {
        return Some(b.clone());
    }
    if b.is_all() {
        return Some(a.clone());
    }
    let both = a.and(b);
    (!both.pieces().is_empty()).then(|| Arc::new(both))
}

fn either_rows(a: Option<&Arc<Spans>>, b: Option<&Arc<Spans>>) -> Option<Arc<Spans>> {
    match (a, b) {
        (Some(a), Some(b)) if Arc::ptr_eq(a, b) => Some(a.clone()),
        (Some(a), Some(b)) => Some(Arc::new(a.or(b))),
        (one, other) => one.or(other).cloned(),
    }
}
