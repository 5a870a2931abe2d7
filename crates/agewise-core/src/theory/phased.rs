//! Periodic participation, as in `phased`: phases on a circle, and an exact count of the clients that are due.
//!
//! A client with phase phi takes part in round t iff floor((t+1) r + phi) > floor(t r + phi). On a circle
//! of 2^64 steps that is: adding one rate to the client's position passes the top. Phases are multiples
//! of the golden ratio, so the clients of a round can be counted without looking at any of them: the
//! count is a difference of two sums of floors, which a Euclid-like recursion gives in about 64 steps
//! for any number of clients.

use crate::random::GOLDEN;

/// A full turn.
pub(crate) const TURN: u128 = 1 << 64;

/// The phase of the client that joined as number `slot`, in 1/2^64 of a turn.
pub(crate) const fn phase(slot: u32) -> u64 {
    (slot as u64).wrapping_mul(GOLDEN)
}

/// A rate of `part` in `whole` rounds as a step on the circle, rounded up so that a whole interval
/// does not lose a round to rounding.
pub(crate) const fn step(part: u32, whole: u32) -> u128 {
    ((part as u128) << 64).div_ceil(whole as u128)
}

/// Any rate as such a step.
pub(crate) fn step_of_rate(rate: f64) -> u128 {
    ((rate * TURN as f64).ceil() as u128).min(TURN)
}

/// The position of a phase at the beginning of a round; rounds before 0 are fine.
pub(crate) const fn position(phase: u64, step: u128, round: i64) -> u64 {
    phase.wrapping_add((step as u64).wrapping_mul(round as u64))
}

/// How many of the first `clients` phases are due in a round.
pub fn due(clients: u32, cohort: u32, round: u64) -> u64 {
    let step = step(cohort, clients);
    let start = u128::from(position(0, step, round as i64));
    let n = u128::from(clients);
    let golden = u128::from(GOLDEN);
    (floor_sum(n, golden, start + step) - floor_sum(n, golden, start)) as u64
}

/// The rounds after which a schedule repeats.
pub fn period(clients: u32, cohort: u32) -> u64 {
    u64::from(clients / gcd(clients, cohort))
}

/// The sum over i < n of floor((a i + b) / 2^64).
fn floor_sum(n: u128, a: u128, b: u128) -> u128 {
    let (mut n, mut modulus, mut a, mut b) = (n, TURN, a, b);
    let mut sum = 0;
    loop {
        if n == 0 {
            return sum;
        }
        sum += n * (n - 1) / 2 * (a / modulus) + n * (b / modulus);
        a %= modulus;
        b %= modulus;
        let top = a * n + b;
        if top < modulus {
            return sum;
        }
        // Count the lattice points under the line by columns instead of rows.
        n = top / modulus;
        b = top % modulus;
        (modulus, a) = (a, modulus);
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_one_by_one(clients: u32, cohort: u32, round: u64) -> u64 {
        let step = step(cohort, clients);
        let is_due =
            |&slot: &u32| u128::from(position(phase(slot), step, round as i64)) + step >= TURN;
        (0..clients).filter(is_due).count() as u64
    }

    #[test]
    fn counting_agrees_with_asking_every_client() {
        for (n, m) in [(1, 1), (2, 1), (100, 15), (100, 20), (101, 100), (7, 7), (4_999, 613)] {
            for round in (0..60).chain([1_000_003, u64::MAX / 3]) {
                assert_eq!(due(n, m, round), due_one_by_one(n, m, round), "{n}, {m}, {round}");
            }
        }
    }

    /// The notes' figures: 14..16 at n = 100, m = 15 (sd 0.63), 1499..1502 at n = 10^4, m = 1500.
    #[test]
    fn cohorts_stay_within_two_of_the_target() {
        let one_period =
            |n, m| (0..period(n, m)).map(|round| due(n, m, round)).collect::<Vec<u64>>();
        let sizes = one_period(100, 15);
        assert_eq!(sizes.len(), 20);
        let range = (sizes.iter().min().copied(), sizes.iter().max().copied());
        assert_eq!(range, (Some(14), Some(16)));
        let large = one_period(10_000, 1_500);
        assert!(large.iter().all(|size| (1_498..=1_502).contains(size)), "{large:?}");
        // Every client has m turns in n rounds, so one period has the exact mean.
        assert_eq!(large.iter().sum::<u64>(), 1_500 * large.len() as u64);
    }

    #[test]
    fn a_billion_clients_are_counted_at_once() {
        let size = due(1_000_000_000, 1_000_000, 123_456);
        assert!(size.abs_diff(1_000_000) < 30, "{size}");
    }
}
