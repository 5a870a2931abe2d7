//! The lowest draws of a population, without sorting it: the draws are uniform, so the last of the lowest is known
//! nearly. Shards take those surely under it at once, and only the few near it are compared with each other.

/// Draws that are surely low enough, and those that may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Every draw under this one is low enough.
    pub(crate) sure: u64,
    /// No draw above this one is.
    pub(crate) possible: u64,
}

/// What a shard found out about a round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ShardSelection {
    /// How many were selected.
    pub(crate) selected: u64,
    /// The draws and numbers of clients between the bounds: it is not known yet who of them takes part.
    pub(crate) near: Vec<(u64, u32)>,
    /// The members of a group that were selected and did not report, until the shard has written them down.
    pub(crate) failed: Vec<u16>,
}

impl Bounds {
    /// Nothing is sure.
    pub(crate) const NONE: Self = Self { sure: 0, possible: u64::MAX };

    /// For the `count` lowest of `among` draws: five standard deviations and some more to both sides.
    pub(crate) fn guess(count: u64, among: u64) -> Self {
        const TWO_TO_64: f64 = (1u128 << 64) as f64;
        let share = count as f64 / among as f64;
        let margin = 5.0 * (share * (1.0 - share) / among as f64).sqrt() + 16.0 / among as f64;
        let scale = |share: f64| (share.clamp(0.0, 1.0) * TWO_TO_64) as u64;
        Self { sure: scale(share - margin), possible: scale(share + margin) }
    }

    /// Whether a draw is neither surely low enough nor surely too high.
    #[inline]
    pub(crate) fn are_around(self, draw: u64) -> bool {
        // Below `sure` the difference wraps around, and is larger than anything.
        draw.wrapping_sub(self.sure) <= self.possible - self.sure
    }
}

/// How many of the clients between the bounds are missing from a cohort; `None` if the guess was wrong.
pub(crate) fn missing(cohort: u64, found: &[ShardSelection]) -> Option<u64> {
    let selected: u64 = found.iter().map(|found| found.selected).sum();
    let near: usize = found.iter().map(|found| found.near.len()).sum();
    cohort.checked_sub(selected).filter(|&missing| missing <= near as u64)
}

/// Says of each client between the bounds whether it is one of the `missing` lowest.
pub(crate) fn sort_out(
    found: Vec<ShardSelection>,
    missing: u64,
) -> impl Iterator<Item = (u32, bool)> {
    let mut near: Vec<(u64, u32)> = found.into_iter().flat_map(|found| found.near).collect();
    let missing = missing as usize;
    if (1..near.len()).contains(&missing) {
        near.select_nth_unstable(missing - 1);
    }
    near.into_iter().enumerate().map(move |(rank, (_, client))| (client, rank < missing))
}
