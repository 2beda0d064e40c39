//! Spans of key bytes, and maps from spans to something.
//!
//! Spans are half-open. The string above `x` is `x 00`: `<= x` is `< x 00`, and the single key `x`
//! is the span from `x` to `x 00`.

use std::cmp::Ordering;
use std::sync::Arc;

/// Keys from `start` (included) to `end` (excluded; `None`: without end). Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Arc<[u8]>,
    pub(crate) end: Option<Arc<[u8]>>,
}

impl Span {
    /// Every key.
    pub(crate) fn all() -> Span {
        Span { start: Arc::from([]), end: None }
    }

    pub(crate) fn is_all(&self) -> bool {
        self.start.is_empty() && self.end.is_none()
    }

    /// The one key in it, if it holds one key only.
    pub(crate) fn point(&self) -> Option<&[u8]> {
        let start = &*self.start;
        let is_point = self.end.as_deref().is_some_and(|end| end.strip_suffix(&[0]) == Some(start));
        is_point.then_some(start)
    }

    /// Whether `key` lies before its end.
    pub(crate) fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }
}

/// The string above `key`.
pub(crate) fn above(key: &[u8]) -> Arc<[u8]> {
    [key, &[0]].concat().into()
}

/// A value for each key of some spans, which are in order and apart; neighbours that touch have
/// different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpanMap<T>(Vec<(Span, T)>);

impl<T: Clone + PartialEq> SpanMap<T> {
    /// A value for no key.
    pub(crate) fn none() -> SpanMap<T> {
        SpanMap(Vec::new())
    }

    /// One value for the keys of one span.
    pub(crate) fn one(span: Span, value: T) -> SpanMap<T> {
        SpanMap(vec![(span, value)])
    }

    pub(crate) fn pieces(&self) -> &[(Span, T)] {
        &self.0
    }

    /// The smallest span around all of it.
    pub(crate) fn hull(&self) -> Option<Span> {
        let ((first, _), (last, _)) = (self.0.first()?, self.0.last()?);
        Some(Span { start: first.start.clone(), end: last.end.clone() })
    }

    /// Another value for the same keys. Of a set's spans none touch, so that no two of
    /// the pieces have to become one.
    pub(crate) fn with<U: Clone + PartialEq>(&self, value: &U) -> SpanMap<U> {
        SpanMap(self.0.iter().map(|(span, _)| (span.clone(), value.clone())).collect())
    }

    /// The same map under other values.
    pub(crate) fn map(&self, mut to: impl FnMut(&T) -> T) -> SpanMap<T> {
        let mut out = Vec::with_capacity(self.0.len());
        for (span, value) in &self.0 {
            push(&mut out, span.clone(), to(value));
        }
        SpanMap(out)
    }

    /// For each key, what `merge` makes of the values of both maps; no value where it gives none.
    pub(crate) fn merged(
        &self,
        other: &SpanMap<T>,
        mut merge: impl FnMut(Option<&T>, Option<&T>) -> Option<T>,
    ) -> SpanMap<T> {
        let (mut left, mut right) = (Pieces::new(&self.0), Pieces::new(&other.0));
        let mut out = Vec::new();
        let mut at: Arc<[u8]> = Arc::from([]);
        loop {
            let next = earlier(left.next_border(&at), right.next_border(&at)).cloned();
            if let Some(value) = merge(left.value_at(&at), right.value_at(&at)) {
                push(&mut out, Span { start: at, end: next.clone() }, value);
            }
            match next {
                None => return SpanMap(out),
                Some(border) => at = border,
            }
            left.skip_to(&at);
            right.skip_to(&at);
        }
    }
}

/// Appends a piece, into the last one where it continues that one.
fn push<T: PartialEq>(out: &mut Vec<(Span, T)>, span: Span, value: T) {
    match out.last_mut() {
        Some((last, same)) if *same == value && last.end.as_ref() == Some(&span.start) => {
            last.end = span.end;
        }
        _ => out.push((span, value)),
    }
}

/// The pieces of a map from some key on.
struct Pieces<'a, T> {
    rest: &'a [(Span, T)],
}

impl<'a, T> Pieces<'a, T> {
    fn new(rest: &'a [(Span, T)]) -> Pieces<'a, T> {
        Pieces { rest }
    }

    /// The next start or end above `at`.
    fn next_border(&self, at: &[u8]) -> Option<&'a Arc<[u8]>> {
        let (span, _) = self.rest.first()?;
        if *span.start > *at { Some(&span.start) } else { span.end.as_ref() }
    }

    fn value_at(&self, at: &[u8]) -> Option<&'a T> {
        self.rest.first().filter(|(span, _)| *span.start <= *at).map(|(_, value)| value)
    }

    /// Drops the piece that ends at `at`.
    fn skip_to(&mut self, at: &[u8]) {
        if let Some(((span, _), rest)) = self.rest.split_first()
            && !span.ends_after(at)
        {
            self.rest = rest;
        }
    }
}

fn earlier<'a>(a: Option<&'a Arc<[u8]>>, b: Option<&'a Arc<[u8]>>) -> Option<&'a Arc<[u8]>> {
    match (a, b) {
        (Some(a), Some(b)) if a.cmp(b) == Ordering::Greater => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// A set of keys.
pub(crate) type Spans = SpanMap<()>;

impl Spans {
    /// Every key.
    pub(crate) fn all() -> Spans {
        SpanMap::one(Span::all(), ())
    }

    /// The one key `key`.
    pub(crate) fn equal_to(key: &[u8]) -> Spans {
        SpanMap::one(Span { start: key.into(), end: Some(above(key)) }, ())
    }

    /// The keys at or above `key`.
    pub(crate) fn at_least(key: &[u8]) -> Spans {
        SpanMap::one(Span { start: key.into(), end: None }, ())
    }

    /// All other keys.
    pub(crate) fn complement(&self) -> Spans {
        self.merged(&SpanMap::none(), |here, _| here.is_none().then_some(()))
    }

    /// The keys of both.
    pub(crate) fn and(&self, other: &Spans) -> Spans {
        self.merged(other, |a, b| a.and(b).copied())
    }

    /// The keys of either.
    pub(crate) fn or(&self, other: &Spans) -> Spans {
        self.merged(other, |a, b| a.or(b).copied())
    }

    pub(crate) fn is_all(&self) -> bool {
        matches!(self.pieces(), [(span, ())] if span.is_all())
    }

    /// The lowest key; `None` for no keys.
    pub(crate) fn start(&self) -> Option<&[u8]> {
        self.pieces().first().map(|(span, ())| &*span.start)
    }

    /// The first key above all; `None` where there is no such key.
    pub(crate) fn end(&self) -> Option<&[u8]> {
        self.pieces().last().and_then(|(span, ())| span.end.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every string of up to two letters out of three.
    fn keys() -> Vec<Vec<u8>> {
        let letters = [0u8, 1, 2];
        let mut all = vec![vec![]];
        for a in letters {
            all.push(vec![a]);
            all.extend(letters.map(|b| vec![a, b]));
        }
        all
    }

    fn holds(spans: &Spans, key: &[u8]) -> bool {
        spans.pieces().iter().any(|(span, ())| *span.start <= *key && span.ends_after(key))
    }

    /// All sets made of two leaves.
    fn sets() -> Vec<Spans> {
        let mut leaves = vec![Spans::all(), Spans::none()];
        for key in keys() {
            leaves.push(Spans::equal_to(&key));
            leaves.push(Spans::at_least(&key));
            leaves.push(Spans::at_least(&above(&key)).complement());
        }
        let pairs = leaves.iter().flat_map(|a| leaves.iter().map(move |b| a.or(b)));
        pairs.collect()
    }

    #[test]
    fn sets_follow_the_laws_of_membership() {
        let sets = sets();
        for a in &sets {
            let rest = a.complement();
            assert!(keys().iter().all(|key| holds(a, key) != holds(&rest, key)));
            assert_eq!(rest.complement(), *a, "one form for one set");
            for b in sets.iter().step_by(31) {
                let (both, either) = (a.and(b), a.or(b));
                for key in keys() {
                    assert_eq!(holds(&both, &key), holds(a, &key) && holds(b, &key));
                    assert_eq!(holds(&either, &key), holds(a, &key) || holds(b, &key));
                }
                for set in [both, either] {
                    let apart =
                        set.pieces().windows(2).all(|w| w[0].0.end < Some(w[1].0.start.clone()));
                    assert!(apart, "pieces are in order and do not touch");
                }
            }
        }
    }

    #[test]
    fn a_point_is_known_as_one() {
        let point = Spans::at_least(b"k").and(&Spans::at_least(b"k\0").complement());
        assert_eq!(point, Spans::equal_to(b"k"));
        assert_eq!(point.pieces()[0].0.point(), Some(&b"k"[..]));
        assert_eq!(Span::all().point(), None);
    }
}
