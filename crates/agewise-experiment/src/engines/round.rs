//! The result of one round, in two steps: its participants are known at once; its metrics follow later, for a block of
//! rounds at a time, while the counters of a shard are in the cache.

use super::counters::CreditSums;
use std::collections::BTreeMap;

/// Who takes part in a round, and who came and went before it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RoundSelection {
    /// Clients that could be selected; nothing where counting them would cost more than the round.
    pub(crate) available: Option<u64>,
    /// Clients that were selected.
    pub(crate) selected: u64,
    /// Those of them that reported, and are credited.
    pub(crate) reported: u64,
    /// Whether the only selected client was forced.
    pub(crate) forced: bool,
    /// Clients that joined.
    pub(crate) joined: u64,
    /// Clients that left for good, by age.
    pub(crate) left: AgeCounts,
}

/// What the credited clients of a round add to the metrics.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RoundMetrics {
    /// Sums over them; nothing while the round is not recorded.
    pub(crate) sums: CreditSums,
    /// How many of them had which age.
    pub(crate) ages: AgeCounts,
}

/// Adds up what shards found for the same rounds, in the order of shards.
pub(crate) fn merge(rounds: usize, shards: Vec<Vec<RoundMetrics>>) -> Vec<RoundMetrics> {
    let mut total = vec![RoundMetrics::default(); rounds];
    for shard in shards {
        for (total, metrics) in total.iter_mut().zip(shard) {
            total.sums.merge(&metrics.sums);
            total.ages.merge(&metrics.ages);
        }
    }
    total
}

/// A round whose metrics are not counted yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UncountedRound {
    pub(crate) round: u64,
    /// The same, counted from the first recorded round; `None` before it.
    pub(crate) recorded: Option<u64>,
    pub(crate) weigher: Weigher,
}

/// What the weights of a cohort without draws depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weighing {
    /// Whether they differ with size.
    pub(crate) by_size: bool,
    /// Whether the mean weight of each client is known: then the sums of weights need not be kept.
    pub(crate) known_means: bool,
}

impl Weighing {
    /// For a cohort of so many clients, `total_size` being the sum of their sizes.
    pub(crate) fn of_cohort(self, clients: u64, total_size: f64) -> Weigher {
        let share = 1.0 / clients as f64;
        match self {
            // Where no client has data, all updates count the same.
            Self { by_size: true, .. } if total_size > 0.0 => Weigher::BySize(total_size),
            Self { known_means: false, .. } => Weigher::Alike(share),
            Self { known_means: true, .. } => Weigher::AlikeWithoutSums(share),
        }
    }
}

/// The weights of a cohort without draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Weigher {
    /// The same for everyone.
    Alike(f64),
    /// The same, and sums of them are not kept.
    AlikeWithoutSums(f64),
    /// By size, the sum of all sizes being this one.
    BySize(f64),
}

/// How many clients have which age.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct AgeCounts {
    /// By age, up to [`AgeCounts::DENSE`].
    young: Vec<u64>,
    old: BTreeMap<u64, u64>,
}

impl AgeCounts {
    const DENSE: u64 = 1_024;

    /// Counts some clients of one age.
    #[inline]
    pub(crate) fn add(&mut self, age: u64, clients: u64) {
        if let Some(count) = self.young.get_mut(age as usize) {
            *count += clients;
        } else {
            self.grow(age, clients);
        }
    }

    #[cold]
    fn grow(&mut self, age: u64, clients: u64) {
        if age < Self::DENSE {
            self.young.resize(age as usize + 1, 0);
            self.young[age as usize] = clients;
        } else {
            *self.old.entry(age).or_default() += clients;
        }
    }

    /// Adds the counts of other clients.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (age, clients) in other.iter() {
            self.add(age, clients);
        }
    }

    /// All ages that anyone has, in increasing order, with the number of clients.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let young = (0..).zip(self.young.iter().copied()).filter(|(_, clients)| *clients > 0);
        young.chain(self.old.iter().map(|(&age, &clients)| (age, clients)))
    }
}

impl FromIterator<u64> for AgeCounts {
    fn from_iter<I: IntoIterator<Item = u64>>(ages: I) -> Self {
        let mut counts = Self::default();
        ages.into_iter().for_each(|age| counts.add(age, 1));
        counts
    }
}
