//! The cohorts of several rounds, planned together.
//!
//! A plan puts each client into one of the next rounds g = 0, 1, ... Its cost is the sum over rounds of |S_g|^2, where S_g
//! is the sum of the centred sketches of the cohort, in units of the mean square of a sketch, plus `punctual` times
//! the sum over clients of (g - d)^2, where d is the number of rounds until the client's age is that of a turn once in n/m
//! rounds. The plan begins with the clients in order of age. Then two clients change places as long as that makes it
//! cheaper, which ends in a plan that no exchange of two makes better.

use super::centred::Centred;

/// How often everyone looks for a better place; few plans need more than five.
const SWEEPS: usize = 10;
/// An exchange has to gain more than rounding could.
const LEAST_GAIN: f64 = 1e-7;

/// A plan.
#[derive(Debug)]
pub(super) struct Timetable {
    /// The round of each client.
    groups: Vec<usize>,
    rounds: usize,
    /// Inner products of all pairs.
    products: Vec<f64>,
    /// For each round the product of its sum with each client.
    with_sums: Vec<f64>,
    /// The product of each client with the sum of its own round.
    with_own: Vec<f64>,
    until_due: Vec<f64>,
    /// The first so many stay where they are.
    fixed: usize,
    punctual: f64,
}

impl Timetable {
    /// Clients in order of age, the round in which each would be if only age counted, and the rounds until each is due.
    pub(super) fn new(
        centred: &Centred,
        groups: Vec<usize>,
        until_due: Vec<f64>,
        fixed: usize,
        punctual: f64,
    ) -> Self {
        let count = centred.count();
        let squares: Vec<f64> =
            (0..count).map(|place| centred.square(place)).filter(|&square| square > 0.0).collect();
        let mean_square = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
        let scale = if mean_square > 0.0 { 1.0 / mean_square } else { 0.0 };
        let mut products = vec![0.0; count * count];
        for one in 0..count {
            for other in 0..=one {
                let product = scale * centred.product(one, other);
                products[one * count + other] = product;
                products[other * count + one] = product;
            }
        }
        let rounds = groups.iter().max().map_or(0, |last| last + 1);
        let mut with_sums = vec![0.0; rounds * count];
        for (&round, row) in groups.iter().zip(products.chunks_exact(count.max(1))) {
            let sums = &mut with_sums[round * count..][..count];
            sums.iter_mut().zip(row).for_each(|(sum, product)| *sum += product);
        }
        let with_own = vec![0.0; count];
        let mut plan =
            Self { groups, rounds, products, with_sums, with_own, until_due, fixed, punctual };
        plan.note_own();
        plan
    }

    fn note_own(&mut self) {
        let count = self.groups.len();
        for (client, (own, &round)) in self.with_own.iter_mut().zip(&self.groups).enumerate() {
            *own = self.with_sums[round * count + client];
        }
    }

    /// Exchanges clients until none of that makes the plan cheaper.
    pub(super) fn settle(&mut self) {
        for _ in 0..SWEEPS {
            let mut changed = false;
            for one in self.fixed..self.groups.len() {
                if let Some(other) = self.best_exchange(one) {
                    self.exchange(one, other);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
    }

    /// The round of each client.
    pub(super) fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// With whom a client should change places.
    ///
    /// If a and b, of rounds with the sums S and R, change places, the cost of the plan grows by
    /// |S - a + b|^2 + |R - b + a|^2 - |S|^2 - |R|^2, which is 2 (aR + bS - aS - bR) + 2 |a - b|^2, and by `punctual`
    /// times 2 (r - s) (d_b - d_a), if they are due in d_a and d_b rounds.
    fn best_exchange(&self, one: usize) -> Option<usize> {
        let count = self.groups.len();
        let here = self.groups[one];
        let products = &self.products[one * count..][..count];
        let with_here = &self.with_sums[here * count..][..count];
        // What depends on the other's round only, once for each round.
        let with_round: Vec<f64> = (0..self.rounds)
            .map(|round| self.with_sums[round * count + one] - self.with_own[one] + products[one])
            .collect();
        let mut best = (-LEAST_GAIN, None);
        for other in self.fixed..count {
            let there = self.groups[other];
            let square = self.products[other * count + other];
            let moved = with_round[there] + with_here[other] - self.with_own[other] + square;
            let shift = there as f64 - here as f64;
            let lateness = shift * (self.until_due[other] - self.until_due[one]);
            let cost = 2.0 * (moved - 2.0 * products[other] + self.punctual * lateness);
            if cost < best.0 && there != here {
                best = (cost, Some(other));
            }
        }
        best.1
    }

    fn exchange(&mut self, one: usize, other: usize) {
        let (here, there) = (self.groups[one], self.groups[other]);
        let count = self.groups.len();
        for client in 0..count {
            let change = self.products[other * count + client] - self.products[one * count + client];
            self.with_sums[here * count + client] += change;
            self.with_sums[there * count + client] -= change;
        }
        self.groups.swap(one, other);
        self.note_own();
    }
}
