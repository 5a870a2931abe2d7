//! What is kept for each client: 20 bytes for its load, its weights and its counts in ten windows at once.

use agewise_core::metrics::WindowTally;

/// Window lengths whose counts fit a byte, eight of them in one word.
pub(crate) const SHORT: [u32; 8] = [2, 3, 5, 10, 20, 50, 100, 200];
/// Longer windows.
pub(crate) const LONG: [u32; 2] = [500, 1000];

/// The window of one round needs no count: a client is in it or not.
const LENGTHS: [u32; 11] = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000];

/// One client's counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Tally {
    pub(crate) selections: u32,
    /// The sum of its aggregation weights.
    weight: f32,
    /// Selections in the present window of each short length, as of the last selection.
    short: [u8; 8],
    long: [u16; 2],
}

/// Which counts of the present windows still hold for clients that were last credited in some round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fresh {
    short: u64,
    long: [u16; 2],
}

impl Fresh {
    /// For clients last credited in `last`, at `now`; both counted from the first recorded round.
    pub(crate) fn new(last: i64, now: u64) -> Self {
        let holds = |length: u32| last >= (now - now % u64::from(length)) as i64;
        let mut short = [0; 8];
        for (mask, length) in short.iter_mut().zip(SHORT) {
            *mask = if holds(length) { u8::MAX } else { 0 };
        }
        let long = LONG.map(|length| if holds(length) { u16::MAX } else { 0 });
        Self { short: u64::from_le_bytes(short), long }
    }
}

/// Sums over the clients that were credited in one round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct CreditSums {
    pub(crate) clients: u64,
    /// Sum of w^2, and of w (2 before + w).
    pub(crate) squares: f64,
    pub(crate) growth: f64,
    /// Sum of w.
    pub(crate) weight: f64,
    /// For each window that has counts: the earlier selections in it.
    earlier: [u64; 10],
}

impl CreditSums {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.clients += other.clients;
        self.squares += other.squares;
        self.growth += other.growth;
        self.weight += other.weight;
        for (mine, theirs) in self.earlier.iter_mut().zip(other.earlier) {
            *mine += theirs;
        }
    }

    /// Adds a round's sums to the windows made by [`windows`].
    pub(crate) fn record(&self, windows: &mut [WindowTally]) {
        let earlier = std::iter::once(0).chain(self.earlier);
        for (window, earlier) in windows.iter_mut().zip(earlier) {
            window.record_many(self.clients, earlier);
        }
    }
}

/// Windows of all lengths.
pub(crate) fn windows(clients: u64) -> Vec<WindowTally> {
    LENGTHS.iter().map(|&length| WindowTally::new(length, clients)).collect()
}

/// Credits clients: counts, weights and windows. Clients come with their weights; all were last credited
/// in the same round. At most 256 of them, so that sums of their counts fit into two bytes.
pub(crate) fn credit(
    tallies: &mut [Tally],
    clients: impl Iterator<Item = (usize, f64)>,
    fresh: Fresh,
) -> CreditSums {
    /// One in each byte.
    const ONES: u64 = 0x0101_0101_0101_0101;
    /// Every other byte, so that sums have room to grow.
    const EVEN: u64 = 0x00FF_00FF_00FF_00FF;

    let mut sums = CreditSums::default();
    let (mut even, mut odd) = (0u64, 0u64);
    for (index, weight) in clients {
        let tally = &mut tallies[index];
        tally.selections += 1;
        let before = f64::from(tally.weight);
        tally.weight = (before + weight) as f32;
        sums.clients += 1;
        sums.weight += weight;
        sums.squares += weight * weight;
        sums.growth += weight * (2.0 * before + weight);
        let counts = u64::from_le_bytes(tally.short) & fresh.short;
        even += counts & EVEN;
        odd += (counts >> 8) & EVEN;
        // No count reaches 255, so no carry goes from one byte to the next.
        tally.short = (counts + ONES).to_le_bytes();
        for ((count, mask), sum) in
            tally.long.iter_mut().zip(fresh.long).zip(&mut sums.earlier[8..])
        {
            *count &= mask;
            *sum += u64::from(*count);
            *count += 1;
        }
    }
    for lane in 0..4 {
        sums.earlier[2 * lane] += even >> (16 * lane) & 0xFFFF;
        sums.earlier[2 * lane + 1] += odd >> (16 * lane) & 0xFFFF;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_core::metrics::Windows;
    use agewise_core::{Chance, Lots, Seed, Stream};

    #[test]
    fn a_client_takes_20_bytes() {
        assert_eq!(size_of::<Tally>(), 20);
    }

    /// The packed counters against the core's plain ones, for clients that are selected often enough to
    /// fill every window.
    #[test]
    fn packed_windows_agree_with_the_plain_ones() {
        let (clients, rounds) = (50u32, 2_100u64);
        for p in [0.15, 0.97] {
            let chance = Chance::new(p);
            let mut tallies = vec![Tally::default(); clients as usize];
            let mut packed = windows(u64::from(clients));
            let mut plain = Windows::new(clients, &LENGTHS);
            let mut last = vec![-1i64; clients as usize];
            for round in 0..rounds {
                let lots = Lots::new(Seed(1), Stream::LOT, round);
                for client in (0..clients).filter(|&c| chance.wins(lots.of(u64::from(c)))) {
                    let index = client as usize;
                    let fresh = Fresh::new(last[index], round);
                    let one = std::iter::once((index, 0.5));
                    credit(&mut tallies, one, fresh).record(&mut packed);
                    plain.record(client, round);
                    last[index] = round as i64;
                }
                for window in &mut packed {
                    window.end_round(round);
                }
                plain.end_round(round);
            }
            let plain = plain.normalised_sd();
            for window in packed {
                assert_eq!(window.normalised_sd(), plain[&window.length()]);
            }
        }
    }
}
