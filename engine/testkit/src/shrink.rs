//! A failing list of operations made small: what can be left out is left out.

/// The shortest list found that still fails: pieces of falling size are taken out as long as
/// `fails` says that the rest fails too. `ops` itself must fail.
///
/// Cost: about `n log n` runs of `fails` for a failure that needs few operations.
pub fn shrink<T: Clone>(ops: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = ops.to_vec();
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        let before = kept.len();
        while at < kept.len() {
            let end = (at + piece).min(kept.len());
            let rest = [&kept[..at], &kept[end..]].concat();
            if fails(&rest) {
                kept = rest;
            } else {
                at = end;
            }
        }
        let stuck = kept.len() == before;
        if stuck || piece > 1 {
            piece /= 2;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_failure_needs_remains() {
        let ops: Vec<u32> = (0..500).collect();
        let needed = [7, 250, 251, 499];
        let small = shrink(&ops, |rest| needed.iter().all(|op| rest.contains(op)));
        assert_eq!(small, needed);
    }
}
