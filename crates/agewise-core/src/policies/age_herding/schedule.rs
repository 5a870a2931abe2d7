//! The cohorts of several rounds, planned together.
//!
//! A plan puts each client into one of the next rounds g = 0, 1, ... Its cost is the sum over rounds of |S_g|^2, where S_g
//! is the sum of the centred sketches of the cohort, in units of the mean square of a sketch, plus `punctual` times
//! the sum over clients of (g - d)^2, where d is the number of rounds until the client's age is that of a turn once in n/m
//! rounds. The plan begins with the clients in order of age. Then two clients change places as long as that makes it
//! cheaper, which ends in a plan that no exchange of two makes better.

#![expect(
    clippy::inline_always,
    reason = "a loop gets wide instructions only inside the function that enables them"
)]

use super::super::simd::{self, Work};
use super::centred::Centred;

/// How often everyone looks for a better place; few plans need more than five.
const SWEEPS: usize = 10;
/// An exchange has to gain more than rounding could.
const LEAST_GAIN: f64 = 1e-7;
/// How many costs are compared side by side.
const LANES: usize = 8;

/// A plan.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The round of each client.
    groups: Vec<usize>,
    /// Inner products of all pairs.
    products: Vec<f64>,
    /// For each round the product of its sum with each client.
    with_sums: Vec<f64>,
    /// The product of each client with the sum of its own round.
    with_own: Vec<f64>,
    /// The square of each.
    squares: Vec<f64>,
    until_due: Vec<f64>,
    /// For the exchanges of one client: what each round and what each other client would cost.
    by_round: Vec<f64>,
    costs: Vec<f64>,
    /// The first so many stay where they are.
    fixed: usize,
    punctual: f64,
}

impl Schedule {
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
        let mut products = centred.products();
        for product in &mut products {
            *product *= scale;
        }
        let rounds = groups.iter().max().map_or(0, |last| last + 1);
        let mut with_sums = vec![0.0; rounds * count];
        for (&round, row) in groups.iter().zip(products.chunks_exact(count.max(1))) {
            let sums = &mut with_sums[round * count..][..count];
            sums.iter_mut().zip(row).for_each(|(sum, product)| *sum += product);
        }
        let mut plan = Self {
            groups,
            squares: products.iter().step_by(count + 1).copied().collect(),
            products,
            with_sums,
            with_own: vec![0.0; count],
            until_due,
            by_round: vec![0.0; rounds],
            costs: vec![0.0; count],
            fixed,
            punctual,
        };
        plan.note_own();
        plan
    }

    #[inline(always)]
    fn note_own(&mut self) {
        let count = self.groups.len();
        for (client, (own, &round)) in self.with_own.iter_mut().zip(&self.groups).enumerate() {
            *own = self.with_sums[round * count + client];
        }
    }

    /// Exchanges clients until none of that makes the plan cheaper.
    pub(super) fn settle(&mut self) {
        struct Settle<'a>(&'a mut Schedule);
        impl Work for Settle<'_> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                for _ in 0..SWEEPS {
                    let mut changed = false;
                    for one in self.0.fixed..self.0.groups.len() {
                        if let Some(other) = self.0.best_exchange(one) {
                            self.0.exchange(one, other);
                            changed = true;
                        }
                    }
                    if !changed {
                        break;
                    }
                }
            }
        }
        simd::run(Settle(self));
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
    #[inline(always)]
    fn best_exchange(&mut self, one: usize) -> Option<usize> {
        let (count, fixed) = (self.groups.len(), self.fixed);
        let here = self.groups[one];
        let products = &self.products[one * count..][..count];
        // What depends on the other's round only. A client in the same round has nothing to offer.
        for (round, cost) in self.by_round.iter_mut().enumerate() {
            *cost = self.with_sums[round * count + one] - self.with_own[one] + products[one];
        }
        self.by_round[here] = f64::INFINITY;
        let others = count - fixed;
        let groups = &self.groups[fixed..][..others];
        let costs = &mut self.costs[fixed..][..others];
        for (cost, &there) in costs.iter_mut().zip(groups) {
            *cost = self.by_round[there];
        }
        let products = &products[fixed..][..others];
        let with_here = &self.with_sums[here * count + fixed..][..others];
        let with_own = &self.with_own[fixed..][..others];
        let squares = &self.squares[fixed..][..others];
        let until_due = &self.until_due[fixed..][..others];
        let due = self.until_due[one];
        for other in 0..others {
            let moved = costs[other] + with_here[other] - with_own[other] + squares[other];
            // 32 bits, because not every machine converts more of them side by side.
            let shift = f64::from(groups[other] as i32 - here as i32);
            let lateness = shift * (until_due[other] - due);
            costs[other] = 2.0 * (moved - 2.0 * products[other] + self.punctual * lateness);
        }
        let least = least(costs);
        if least < -LEAST_GAIN {
            costs.iter().position(|&cost| cost == least).map(|other| fixed + other)
        } else {
            None
        }
    }

    #[inline(always)]
    fn exchange(&mut self, one: usize, other: usize) {
        let (here, there) = (self.groups[one], self.groups[other]);
        let count = self.groups.len();
        let (own, others) = (one * count, other * count);
        let (from, to) = (here * count, there * count);
        for client in 0..count {
            let change = self.products[others + client] - self.products[own + client];
            self.with_sums[from + client] += change;
            self.with_sums[to + client] -= change;
        }
        self.groups.swap(one, other);
        self.note_own();
    }
}

/// The least of some numbers.
#[inline(always)]
fn least(numbers: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let smaller = |one: f64, other: f64| if one < other { one } else { other };
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = smaller(chunk[lane], lanes[lane]);
        }
    }
    lanes.iter().chain(rest).fold(f64::INFINITY, |least, &number| smaller(number, least))
}
