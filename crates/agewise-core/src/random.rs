//! Randomness without a generator: every random number is a pure function of
//! (seed, stream, round, client).
//!
//! A policy run at round `t` needs nothing from rounds before `t`, a client needs nothing from other
//! clients, and threads need nothing from each other. That is what makes a resumed run continue
//! exactly, and what lets a client make at home the very draw that the simulator makes for it.
//!
//! The function is the SplitMix64 finaliser (two multiply-xorshift steps, which is what makes that
//! generator pass BigCrush) over a Weyl sequence of client numbers. Both the start of the sequence and
//! a word mixed in between the two multiplications come from (seed, stream, round), so two rounds are
//! different functions and not two windows on one sequence. It is not cryptographic: where clients
//! could cheat, the deployment replaces it by a verifiable random function and keeps the rest.

use rand_core::TryRng;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// 2^64 divided by the golden ratio, made odd: the Weyl increment, and the step between phases.
pub(crate) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Seed(pub u64);

/// What a random number is for; numbers of different streams are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream(u64);

impl Stream {
    /// The draw by which a client decides, and which breaks ties: shared by all policies, so that
    /// policies compared under one seed see common random numbers.
    pub const DRAW: Self = Self(1);
    /// The client that is forced into an empty cohort.
    pub const FORCED: Self = Self(2);
    /// The first ages of a stationary start.
    pub const FIRST_AGE: Self = Self(3);
    /// The draws of the `probabilistic` policy (indexed by pick, not by client).
    pub const BY_SIZE: Self = Self(4);
    /// Data sizes drawn from a law.
    pub const SIZE: Self = Self(5);
    /// The slow reshuffling of phases.
    pub const RESHUFFLE: Self = Self(6);
    /// The coarse part of [`Ranks`].
    pub const RANK: Self = Self(7);

    /// A stream of your own; numbers under 2^16 are reserved for agewise.
    pub const fn custom(number: u64) -> Self {
        Self(number)
    }
}

/// A number in [0, 1) that decides for one client in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Draw(u64);

impl Draw {
    /// A draw from 64 uniform random bits, for example the output of a verifiable random function.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The draw as a number in [0, 1), with 53 bits.
    pub fn unit(self) -> f64 {
        (self.0 >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// The 64 bits of the draw, for ranking clients against each other.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// A probability ready to be compared with draws: `chance.wins(draw)` is exactly `draw.unit() < p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// Never wins.
    pub const NEVER: Self = Self(0);
    /// Always wins.
    pub const CERTAIN: Self = Self(1 << 53);

    /// The chance `p`, which the caller has checked to be in [0, 1].
    pub fn new(p: f64) -> Self {
        // Scaling by 2^53 is exact, and k < x holds for a whole k exactly when k < ceil(x).
        Self((p * (1u64 << 53) as f64).ceil() as u64)
    }

    /// Whether this draw wins.
    #[inline]
    pub const fn wins(self, draw: Draw) -> bool {
        (draw.0 >> 11) < self.0
    }
}

/// The draws of all clients in one round of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws {
    start: u64,
    twist: u64,
}

impl Draws {
    /// The draws of `round` in `stream` under `seed`.
    pub fn new(seed: Seed, stream: Stream, round: u64) -> Self {
        let mut key = mix(seed.0 ^ 0xA6E5_1CE0_F0C1_1E57);
        key = mix(key.wrapping_add(stream.0.wrapping_mul(GOLDEN)));
        key = mix(key.wrapping_add(round.wrapping_mul(GOLDEN)));
        Self { start: key, twist: mix(key ^ GOLDEN) }
    }

    /// The draw of one client (or of one pick, in streams that count picks).
    #[inline]
    pub const fn of(&self, index: u64) -> Draw {
        let mut z = self.start.wrapping_add(index.wrapping_mul(GOLDEN));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^= self.twist;
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Draw(z ^ (z >> 31))
    }

    /// 64 random bits by one long multiplication instead of two short ones (the step of wyrand): for passes over
    /// everyone. Not the bits of [`Self::of`].
    #[inline]
    const fn quick(&self, index: u64) -> u64 {
        let z = self.start.wrapping_add(index.wrapping_mul(GOLDEN));
        let product = z as u128 * (z ^ self.twist) as u128;
        (product >> 64) as u64 ^ product as u64
    }

    /// An unending sequence of random numbers that belongs to one client of this round, for
    /// distributions that need more than one number; works with `rand`.
    pub fn sequence(&self, index: u64) -> Sequence {
        let key = self.of(index).0;
        Sequence { draws: Self { start: key, twist: mix(key ^ self.twist) }, next: 0 }
    }
}

/// A random order of all clients in one round.
///
/// A rank is 8 coarse bits and 56 fine ones from the client's own draw: a comparison of all clients needs the fine ones
/// only where the coarse ones do not tell. The coarse bits of 64 clients lie in 8 words, so that all of them are
/// compared at once ([`CoarseRanks`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    coarse: Draws,
    fine: Draws,
}

impl Ranks {
    /// The clients that share words of coarse bits.
    pub const BLOCK: u64 = 64;

    /// The order of a round.
    pub fn new(seed: Seed, round: u64) -> Self {
        let draws = |stream| Draws::new(seed, stream, round);
        Self { coarse: draws(Stream::RANK), fine: draws(Stream::DRAW) }
    }

    /// The coarse bits of the clients 64 `block` to 64 `block` + 63.
    #[inline]
    pub fn coarse(&self, block: u64) -> CoarseRanks {
        CoarseRanks(std::array::from_fn(|plane| self.coarse.quick(8 * block + plane as u64)))
    }

    /// The rank of one client, whose block has these coarse bits.
    #[inline]
    pub fn in_block(&self, coarse: &CoarseRanks, client: u64) -> u64 {
        coarse.of(client % Self::BLOCK) << 56 | self.fine.of(client).bits() >> 8
    }

    /// The rank of one client.
    pub fn of(&self, client: u64) -> u64 {
        self.in_block(&self.coarse(client / Self::BLOCK), client)
    }
}

/// The coarse bits of the ranks of 64 clients: a word for each bit, the highest first, with one bit per client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoarseRanks([u64; 8]);

impl CoarseRanks {
    /// One bit for each client: whether its coarse bits are a number below `limit`.
    #[inline]
    pub fn below(&self, limit: u8) -> u64 {
        self.compare(limit, 0)
    }

    /// One bit for each client: whether its coarse bits are a number of at most `limit`.
    #[inline]
    pub fn at_most(&self, limit: u8) -> u64 {
        self.compare(limit, u64::MAX)
    }

    /// Compares from the lowest bit on: where the bit of a number and that of the limit are equal, the lower bits
    /// have decided, and all of them being equal counts as `equal` says.
    #[inline]
    fn compare(&self, limit: u8, equal: u64) -> u64 {
        self.0.iter().rev().enumerate().fold(equal, |lower, (plane, bits)| {
            // All ones if the limit has this bit.
            let limit = u64::from(limit >> plane & 1).wrapping_neg();
            lower & (!bits | limit) | !bits & limit
        })
    }

    /// The coarse bits of one of the 64 clients, as a number.
    #[inline]
    pub fn of(&self, client: u64) -> u64 {
        self.0.iter().fold(0, |number, bits| number << 1 | bits >> client & 1)
    }
}

/// A sequence of random numbers, made by [`Draws::sequence`].
#[derive(Debug, Clone)]
pub struct Sequence {
    draws: Draws,
    next: u64,
}

impl TryRng for Sequence {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|bits| (bits >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let bits = self.draws.of(self.next).0;
        self.next = self.next.wrapping_add(1);
        Ok(bits)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

/// The finaliser of SplitMix64.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    #[test]
    fn chance_is_the_comparison_of_the_unit_number() {
        let draws = Draws::new(Seed(1), Stream::DRAW, 7);
        for p in [0.0, 1e-300, 0.15, 1.0 / 3.0, 0.5, 1.0 - f64::EPSILON / 2.0, 1.0] {
            let chance = Chance::new(p);
            for client in 0..2_000 {
                let draw = draws.of(client);
                assert_eq!(chance.wins(draw), draw.unit() < p, "p = {p}, draw = {}", draw.unit());
            }
            // The draws next to the threshold itself, which random ones never hit.
            let threshold = (p * (1u64 << 53) as f64) as u64;
            for k in threshold.saturating_sub(2)..=(threshold + 2).min((1 << 53) - 1) {
                let draw = Draw::from_bits(k << 11);
                assert_eq!(chance.wins(draw), draw.unit() < p);
            }
        }
        assert_eq!(Chance::new(1.0), Chance::CERTAIN);
        assert_eq!(Chance::new(0.0), Chance::NEVER);
    }

    /// Pearson's statistic over 256 cells for 2^16 numbers, along each coordinate and along
    /// differences: the 99.99% quantile of chi-square with 255 degrees of freedom is 347.
    #[test]
    fn draws_are_uniform_along_every_coordinate() {
        let count = 1u64 << 16;
        let by_client = |i: u64| Draws::new(Seed(3), Stream::DRAW, 5).of(i);
        let by_round = |i: u64| Draws::new(Seed(3), Stream::DRAW, i).of(17);
        let by_seed = |i: u64| Draws::new(Seed(i), Stream::DRAW, 5).of(17);
        let by_stream = |i: u64| Draws::new(Seed(3), Stream::custom(i), 5).of(17);
        let diagonal = |i: u64| Draws::new(Seed(3), Stream::DRAW, i).of(i);
        let quick = |i: u64| Draw(Draws::new(Seed(3), Stream::RANK, 5).quick(i));
        let quick_by_round = |i: u64| Draw(Draws::new(Seed(3), Stream::RANK, i).quick(17));
        let walks: [(&str, &dyn Fn(u64) -> Draw); 7] = [
            ("quick, client", &quick),
            ("quick, round", &quick_by_round),
            ("client", &by_client),
            ("round", &by_round),
            ("seed", &by_seed),
            ("stream", &by_stream),
            ("diagonal", &diagonal),
        ];
        for (name, walk) in walks {
            let cells: [fn(u64, u64) -> u64; 4] = [
                |a, _| a >> 56,
                |a, _| (a >> 11) & 255,
                // Neighbours must be independent: their difference is uniform too.
                |a, b| a.wrapping_sub(b) >> 56,
                |a, b| (a ^ b) >> 56,
            ];
            for (which, cell) in cells.iter().enumerate() {
                let mut seen = [0u32; 256];
                for i in 0..count {
                    seen[cell(walk(i).bits(), walk(i + 1).bits()) as usize] += 1;
                }
                let mean = count as f64 / 256.0;
                let chi2: f64 = seen.iter().map(|&k| (k as f64 - mean).powi(2) / mean).sum();
                assert!((180.0..347.0).contains(&chi2), "{name}, cell {which}: chi2 = {chi2}");
            }
        }
    }

    #[test]
    fn flipping_one_input_bit_flips_half_of_the_output_bits() {
        let draw =
            |seed, round, client| Draws::new(Seed(seed), Stream::DRAW, round).of(client).bits();
        for bit in 0..32 {
            let mut flips = [0u32; 3];
            for k in 0..1_000u64 {
                let base = draw(k, k, k);
                flips[0] += (base ^ draw(k ^ (1 << bit), k, k)).count_ones();
                flips[1] += (base ^ draw(k, k ^ (1 << bit), k)).count_ones();
                flips[2] += (base ^ draw(k, k, k ^ (1 << bit))).count_ones();
            }
            for total in flips {
                // 64,000 fair bits: mean 32,000, sd 126; 6 sd allowed.
                assert!((31_240..32_760).contains(&total), "bit {bit}: {total}");
            }
        }
    }

    /// Ranks are a random order: each of 8 clients is the first equally often in 16,000 rounds. Pearson's
    /// statistic with 7 degrees of freedom is under 30 with probability 0.9999.
    #[test]
    fn ranks_favour_nobody() {
        let mut first = [0u32; 8];
        for round in 0..16_000 {
            let ranks = Ranks::new(Seed(2), round);
            let lowest = (0..8u64).min_by_key(|&client| ranks.of(client)).unwrap();
            first[lowest as usize] += 1;
        }
        let chi2: f64 = first.iter().map(|&k| (f64::from(k) - 2_000.0).powi(2) / 2_000.0).sum();
        assert!(chi2 < 30.0, "{first:?}");
    }

    #[test]
    fn coarse_ranks_are_compared_each_by_itself() {
        let ranks = Ranks::new(Seed(5), 3);
        for block in 0..8 {
            let coarse = ranks.coarse(block);
            for limit in 0..=255 {
                let (below, at_most) = (coarse.below(limit), coarse.at_most(limit));
                for client in 0..64 {
                    let number = coarse.of(client);
                    assert_eq!(below >> client & 1 == 1, number < u64::from(limit));
                    assert_eq!(at_most >> client & 1 == 1, number <= u64::from(limit));
                    assert_eq!(coarse.of(client), ranks.of(64 * block + client) >> 56);
                }
            }
        }
    }

    #[test]
    fn sequences_repeat_and_differ_between_clients() {
        let draws = Draws::new(Seed(9), Stream::SIZE, 0);
        let take = |client| {
            let mut sequence = draws.sequence(client);
            (0..4).map(|_| sequence.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(take(3), take(3));
        assert_ne!(take(3), take(4));
        let mut bytes = [0u8; 11];
        draws.sequence(3).fill_bytes(&mut bytes);
        assert_eq!(bytes[..8], take(3)[0].to_le_bytes());
    }
}
