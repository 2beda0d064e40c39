//! What keys do to partitions: which is hot, whether keys only grow or fall, and what others would
//! do.

use crate::bench::knee::AZURE_PARTITION;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// Writes in a row that count as one moment.
pub(crate) const MOMENT: usize = 1_000;

/// So many of all new keys at one end are a pattern.
const ONE_SIDED: f64 = 0.9;

/// Fewer partitions than this have no pattern.
const NEW_MIN: usize = 8;

/// A write's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// PartitionKey.
    pub(crate) partition: String,
    /// RowKey.
    pub(crate) row: String,
}

/// How keys come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// New keys are above all others: the last partitions take every write.
    AppendOnly,
    /// New keys are below all others: the first partitions take every write.
    PrependOnly,
    /// One partition, or hardly more.
    Single,
    /// Neither.
    Spread,
}

impl Shape {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::AppendOnly => "append-only",
            Shape::PrependOnly => "prepend-only",
            Shape::Single => "one partition",
            Shape::Spread => "spread",
        }
    }
}

/// What a scheme of keys does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Effect {
    /// Partitions in all.
    pub(crate) partitions: usize,
    /// The share of all writes that the hottest one has.
    pub(crate) hottest: f64,
    /// Its key.
    pub(crate) hottest_key: String,
    /// The share that the hottest one has at one moment, as a mean over all moments.
    pub(crate) at_a_moment: f64,
    /// How new PartitionKeys come.
    pub(crate) shape: Shape,
    /// How RowKeys come within a partition.
    pub(crate) rows: Shape,
}

impl Effect {
    /// Writes a second that fit before the hottest partition is at Azure's target.
    pub(crate) fn fits(&self) -> f64 {
        AZURE_PARTITION / self.at_a_moment.max(1e-9)
    }
}

/// Judges writes in their order. `name` makes the PartitionKey.
pub(crate) fn effect(writes: &[Written], name: impl Fn(&Written) -> String) -> Effect {
    let mut in_all: HashMap<String, usize> = HashMap::new();
    let mut moments = (0.0, 0_usize);
    let mut new = Ends::default();
    for moment in writes.chunks(MOMENT) {
        let mut now: HashMap<&str, usize> = HashMap::new();
        let names: Vec<String> = moment.iter().map(&name).collect();
        for key in &names {
            *now.entry(key).or_default() += 1;
        }
        let most = now.values().max().copied().unwrap_or_default();
        moments = (moments.0 + most as f64, moments.1 + names.len());
        for key in names {
            match in_all.get_mut(&key) {
                Some(count) => *count += 1,
                None => {
                    new.add(&key);
                    in_all.insert(key, 1);
                }
            }
        }
    }
    let hottest = in_all.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
    Effect {
        partitions: in_all.len(),
        hottest: hottest.map_or(0.0, |(_, count)| *count as f64 / writes.len().max(1) as f64),
        hottest_key: hottest.map_or(String::new(), |(key, _)| key.clone()),
        at_a_moment: moments.0 / moments.1.max(1) as f64,
        shape: if in_all.len() < NEW_MIN { few(&new) } else { new.shape() },
        rows: rows(writes, &name),
    }
}

/// Few partitions are one, or one after the other.
fn few(new: &Ends) -> Shape {
    match new.seen {
        0 | 1 => Shape::Single,
        n if n >= 3 && new.above == n - 1 => Shape::AppendOnly,
        n if n >= 3 && new.below == n - 1 => Shape::PrependOnly,
        _ => Shape::Spread,
    }
}

/// How RowKeys come, each against those of its partition so far.
fn rows(writes: &[Written], name: &impl Fn(&Written) -> String) -> Shape {
    let mut ends: HashMap<String, Ends> = HashMap::new();
    for write in writes {
        ends.entry(name(write)).or_default().add(&write.row);
    }
    let sum = ends.values().fold(Ends::default(), |sum, one| Ends {
        seen: sum.seen + one.seen.saturating_sub(1),
        above: sum.above + one.above,
        below: sum.below + one.below,
        ..Ends::default()
    });
    // The first of each partition says nothing and is not counted.
    Ends { seen: sum.seen + 1, ..sum }.shape()
}

/// How keys come at the two ends of those before.
#[derive(Clone, Debug, Default)]
struct Ends {
    least: Option<String>,
    most: Option<String>,
    seen: usize,
    above: usize,
    below: usize,
}

impl Ends {
    fn add(&mut self, key: &str) {
        self.seen += 1;
        if self.most.as_deref().is_none_or(|most| key > most) {
            self.above += usize::from(self.most.is_some());
            self.most = Some(key.to_owned());
        }
        if self.least.as_deref().is_none_or(|least| key < least) {
            self.below += usize::from(self.least.is_some());
            self.least = Some(key.to_owned());
        }
    }

    fn shape(&self) -> Shape {
        let later = self.seen.saturating_sub(1).max(1) as f64;
        match (self.above as f64 / later, self.below as f64 / later) {
            (above, _) if above >= ONE_SIDED => Shape::AppendOnly,
            (_, below) if below >= ONE_SIDED => Shape::PrependOnly,
            _ => Shape::Spread,
        }
    }
}

/// A scheme of keys that might do better.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// What it is called.
    pub(crate) name: String,
    /// How many places a range of the present keys has to be read in; `None`: such ranges are lost.
    pub(crate) places: Option<u32>,
    scheme: Scheme,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    AsIs,
    /// A hash of the RowKey before the PartitionKey.
    Buckets(u32),
    /// The PartitionKey read backwards.
    Reversed,
    /// The PartitionKey with the RowKey up to its first separator.
    Compound,
}

/// The keys as they are, and the candidates.
pub(crate) fn candidates(buckets: u32) -> Vec<Candidate> {
    let candidate =
        |name: &str, places, scheme| Candidate { name: name.to_owned(), places, scheme };
    vec![
        candidate("as they are", Some(1), Scheme::AsIs),
        candidate(
            &format!("hash of the row into {buckets} buckets"),
            Some(buckets),
            Scheme::Buckets(buckets),
        ),
        candidate("PartitionKey reversed", None, Scheme::Reversed),
        candidate("PartitionKey and beginning of RowKey", None, Scheme::Compound),
    ]
}

impl Candidate {
    /// The PartitionKey that it gives a write.
    pub(crate) fn partition(&self, write: &Written) -> String {
        match self.scheme {
            Scheme::AsIs => write.partition.clone(),
            Scheme::Buckets(buckets) => {
                let digits = (buckets - 1).to_string().len();
                let bucket = xxh3_64(write.row.as_bytes()) % u64::from(buckets);
                format!("{bucket:0digits$}-{}", write.partition)
            }
            Scheme::Reversed => write.partition.chars().rev().collect(),
            Scheme::Compound => {
                let end =
                    write.row.find(['-', '_', '.', ':', '|', ' ', 'T']).unwrap_or(write.row.len());
                format!("{}|{}", write.partition, &write.row[..end])
            }
        }
    }
}

/// What follows from the keys as they are, at a rate.
pub(crate) fn verdict(effects: &[(Candidate, Effect)], rate: u32) -> Vec<String> {
    let Some((_, own)) = effects.first() else { return Vec::new() };
    let mut said = Vec::new();
    let needs = f64::from(rate) * own.at_a_moment;
    match own.shape {
        Shape::AppendOnly => said.push(
            "PartitionKeys are append-only: every new one is above all others, so at any moment one server \
             has all the writes, however many partitions there are."
                .to_owned(),
        ),
        Shape::PrependOnly => said.push(
            "PartitionKeys are prepend-only: every new one is below all others, so at any moment one server \
             has all the writes, however many partitions there are."
                .to_owned(),
        ),
        Shape::Single => said.push("All rows are in one partition: it cannot be divided among servers.".to_owned()),
        Shape::Spread => {}
    }
    let share = own.at_a_moment * 100.0;
    said.push(match needs > AZURE_PARTITION {
        true => format!(
            "At {rate} writes a second the hottest partition gets {needs:.0} a second ({share:.0} % at any moment): \
             above the 2,000 that Azure serves."
        ),
        false => format!(
            "At {rate} writes a second the hottest partition gets {needs:.0} a second ({share:.0} % at any moment): \
             within the 2,000 that Azure serves."
        ),
    });
    if own.hottest > 3.0 / own.partitions.max(1) as f64 && own.partitions > 3 {
        said.push(format!(
            "'{}' alone has {:.1} % of all writes; the mean of {} partitions is {:.2} %.",
            own.hottest_key,
            own.hottest * 100.0,
            own.partitions,
            100.0 / own.partitions as f64
        ));
    }
    let good = |(_, effect): &&(Candidate, Effect)| {
        f64::from(rate) * effect.at_a_moment <= AZURE_PARTITION
            && matches!(effect.shape, Shape::Spread)
    };
    let is_fine = good(&&effects[0]);
    // The fewest places to read first; a scheme that loses ranges comes last.
    let best = effects[1..]
        .iter()
        .filter(good)
        .min_by_key(|(candidate, _)| candidate.places.unwrap_or(u32::MAX));
    said.push(match (is_fine, best) {
        (true, _) => "These keys are fine for that.".to_owned(),
        (false, Some((candidate, effect))) => format!(
            "Better: {}. The hottest partition then has {:.0} % at any moment{}.",
            candidate.name,
            effect.at_a_moment * 100.0,
            match candidate.places {
                Some(places) =>
                    format!(", and a range of the present keys is read in {places} places"),
                None =>
                    ", and ranges over the present PartitionKeys can no longer be read in one go"
                        .to_owned(),
            }
        ),
        (false, None) => {
            "None of these candidates is enough: more --buckets, or a key that is spread by itself."
                .to_owned()
        }
    });
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::pattern::Pattern;
    use tabulith::env::rng::Rng;

    fn written(partition: &str, row: &str, rate: u32) -> Vec<Written> {
        let mut rng = Rng::seeded(7);
        let pattern = |text: &str| Pattern::parse(text).expect("a pattern");
        let (partition, row) = (pattern(partition), pattern(row));
        (0..20_000)
            .map(|n| Written {
                partition: partition.key(n, rate, &mut rng),
                row: row.key(n, rate, &mut rng),
            })
            .collect()
    }

    fn judged(partition: &str, row: &str, rate: u32) -> Vec<(Candidate, Effect)> {
        let writes = written(partition, row, rate);
        candidates(16)
            .into_iter()
            .map(|c| {
                let e = effect(&writes, |w| c.partition(w));
                (c, e)
            })
            .collect()
    }

    #[test]
    fn a_key_by_date_is_append_only_and_hot_at_every_moment() {
        // 2,000 writes a day for ten days.
        let mut writes = written("{date}", "{uuid}", 1);
        for (n, write) in writes.iter_mut().enumerate() {
            write.partition = format!("2026-01-{:02}", 1 + n * 10 / 20_000);
        }
        let own = effect(&writes, |write| write.partition.clone());
        assert_eq!((own.shape, own.partitions), (Shape::AppendOnly, 10));
        assert!(
            own.hottest < 0.11 && own.at_a_moment > 0.99,
            "spread in all, hot at each moment: {own:?}"
        );
        let all = judged("{date}", "{uuid}", 5_000);
        assert!(all[0].1.fits() < 2_001.0);
        let said = verdict(&all, 5_000);
        assert!(said.iter().any(|line| line.contains("above the 2,000")), "{said:?}");
        assert!(
            said.iter().any(|line| line.contains("Better: hash of the row into 16 buckets")
                && line.contains("16 places")),
            "{said:?}"
        );
        let hashed = &all[1].1;
        assert!(hashed.at_a_moment < 0.12 && hashed.shape == Shape::Spread, "{hashed:?}");
    }

    #[test]
    fn numbers_that_grow_or_fall_have_their_names() {
        assert_eq!(judged("{seq}", "x", 1_000)[0].1.shape, Shape::AppendOnly);
        assert_eq!(judged("{time}", "x", 1_000)[0].1.shape, Shape::AppendOnly);
        assert_eq!(judged("{back}", "x", 1_000)[0].1.shape, Shape::PrependOnly);
        assert_eq!(judged("all", "{seq}", 1_000)[0].1.shape, Shape::Single);
        assert_eq!(judged("all", "{seq}", 1_000)[0].1.rows, Shape::AppendOnly);
        assert_eq!(judged("all", "{back}", 1_000)[0].1.rows, Shape::PrependOnly);
        assert_eq!(judged("{uuid}", "x", 1_000)[0].1.shape, Shape::Spread);
        assert_eq!(judged("all", "{uuid}", 1_000)[0].1.rows, Shape::Spread);
        // Read backwards, a growing number is spread.
        assert_eq!(judged("{seq}", "x", 1_000)[2].1.shape, Shape::Spread);
    }

    #[test]
    fn the_hottest_of_skewed_tenants_is_named() {
        let all = judged("tenant{zipf:1000}", "{time}", 2_000);
        let own = &all[0].1;
        assert_eq!((own.hottest_key.as_str(), own.shape), ("tenant000", Shape::Spread));
        assert!((0.12..0.15).contains(&own.hottest), "{own:?}");
        let said = verdict(&all, 2_000);
        assert!(said.iter().any(|line| line.contains("'tenant000' alone has 1")), "{said:?}");
        assert!(said.iter().any(|line| line.contains("fine")), "{said:?}");
        assert!(verdict(&all, 100_000).iter().any(|line| line.contains("Better")));
        assert_eq!(effect(&[], |write| write.partition.clone()).partitions, 0);
    }
}
