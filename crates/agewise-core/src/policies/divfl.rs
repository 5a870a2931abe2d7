//! `divfl`: the m clients whose updates stand for those of all (Balakrishnan, Li, Zhou, Himayat, Smith, Bilmes:
//! "Diverse Client Selection for Federated Learning via Submodular Maximization").
//!
//! S is chosen so that the sum over all clients of the distance to the nearest member of S is small (facility location),
//! greedily: each step takes the client that lowers the sum most. The sum is submodular, so what greedy
//! gains is at least 1 - 1/e of the best. The updates are the last ones that each client sent, which is the paper's
//! variant without extra communication; the distances are those of their sketches.
//!
//! `sample=s` is the paper's stochastic greedy choice: each step looks at s random clients only. Without it, as in the
//! authors' program, every step looks at all of them, and there is nothing random but ties; as only the chosen ones send
//! new updates, cohorts then change little from round to round.
//!
//! What the paper leaves open, and what is ours:
//! - Clients without a sketch. In the paper everyone sends an update first; so everyone is asked before the first
//!   round for that of a whole round's work (`probe=0`: none is). Without answers, the distance to a client without a sketch
//!   is unknown, so such clients are selected first, in random order; the greedy choice fills the remaining slots.
//! - Unavailable clients cannot be selected, but they still count in the facility-location objective.
//! - The weights are uniform. (The bound of the paper would weigh a member by the number of clients it stands for; the
//!   authors' program weighs by data size. With equal sizes that is the same.)
//! - What is compared are updates, changes of the model by a round's work; the authors' program compares gradients of all
//!   samples at the model that was sent out.
//! - More than 1,000 clients: the choice is among that many random ones, and they stand for that many
//!   random ones. A cohort above 250 is then chosen in parts of that many, each among its own candidates.

use super::sampling::{
    into_picks, shuffled,
    streams::{STEP, UNIFORM},
    unknown_ages, unknown_at_the_start, whole_option,
};
use super::simd::squared_distance;
use super::vectors::Vectors;
use crate::policy::{Needs, Policy, PolicyEntry, Probe, ProbeKind, uniform_inclusion};
use crate::random::{Draw, Draws, Seed, Stream};
use crate::reports::Reports;
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::weighting::Weighting;
use rand_core::Rng;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The most clients to choose from, and the most to stand for.
const MOST: usize = 1_000;
/// The most that are chosen from so many.
const LARGEST_PART: usize = MOST / 4;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "divfl",
    summary: "the m clients whose last updates stand best for those of all (facility location).",
    options: &[
        ("sample", "how many random clients a greedy step looks at; all if not given"),
        ("probe", "1: clients without a sketch are asked for one before the first round; 1"),
    ],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |spec, _| {
        let sample = whole_option(spec, "sample", 1, u32::MAX)?;
        let probes = whole_option(spec, "probe", 0, 1)?.unwrap_or(1) == 1;
        Ok(Box::new(DivFl { sample: sample.map(|sample| sample as usize), probes }))
    },
};

#[derive(Debug)]
struct DivFl {
    /// How many random clients a step looks at.
    sample: Option<usize>,
    probes: bool,
}

impl DivFl {
    /// Chooses among clients whose sketches are known, which come in random order.
    fn represent(&self, round: &Round<'_>, candidates: &[u32], count: usize) -> Vec<u32> {
        if count == 0 {
            return Vec::new();
        }
        let reports = round.reports();
        let known = (0..round.setting().clients()).filter(|&c| reports.sketch(c).is_some());
        let mut all = shuffled(known.collect(), &round.draws(UNIFORM));
        all.truncate(MOST);
        let parts = if candidates.len() <= MOST { 1 } else { count.div_ceil(LARGEST_PART) };
        let from = |total: usize, part: usize| (total as u64 * part as u64 / parts as u64) as usize;
        let mut chosen = Vec::with_capacity(count);
        for part in 0..parts {
            let own = &candidates[from(candidates.len(), part)..from(candidates.len(), part + 1)];
            let own = &own[..own.len().min(MOST)];
            let places = from(count, part + 1) - from(count, part);
            let facilities = Facilities::new(reports, own, &all, round.draws(Stream::DRAW));
            let members = match self.sample {
                None => facilities.choose(places),
                Some(sample) => facilities.choose_among(sample, places, &round.draws(STEP)),
            };
            chosen.extend(members.into_iter().map(|index| own[index]));
        }
        // Where nearly all are wanted, a part can have one candidate less than places.
        let mut taken = chosen.clone();
        taken.sort_unstable();
        let others = candidates.iter().filter(|client| taken.binary_search(client).is_err());
        chosen.extend(others.take(count - chosen.len()));
        chosen
    }
}

impl Policy for DivFl {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let places = round.setting().cohort() as usize;
        let order = shuffled(round.available().collect(), &round.draws(UNIFORM));
        let (known, mut chosen): (Vec<u32>, Vec<u32>) =
            order.into_iter().partition(|&client| round.reports().sketch(client).is_some());
        chosen.truncate(places);
        let left = (places - chosen.len()).min(known.len());
        chosen.extend(self.represent(round, &known, left));
        into_picks(chosen)
    }

    fn needs(&self) -> Needs {
        Needs { training: true, update_sketches: true, ..Needs::default() }
    }

    /// Distances are of updates as they are: one of a single step would be near everything that is small.
    fn probes(&self, round: &Round<'_>) -> Vec<Probe> {
        if !self.probes {
            return Vec::new();
        }
        Probe::all(ProbeKind::UpdateRound, unknown_at_the_start(round))
    }

    /// It depends on the updates and has no closed form; all clients count as equally likely.
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        unknown_ages(setting)
    }
}

/// What a candidate would bring: more gain first, then the lower draw, then the lower number.
#[derive(Debug, Clone, Copy)]
struct Offer {
    gain: f64,
    draw: Draw,
    index: usize,
}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> Ordering {
        let tie = |offer: &Self| Reverse((offer.draw, offer.index));
        self.gain.total_cmp(&other.gain).then_with(|| tie(self).cmp(&tie(other)))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Offer {}

/// Candidates, and how far each of them is from those to stand for.
#[derive(Debug)]
struct Facilities {
    draws: Vec<Draw>,
    /// How many are to stand for.
    all: usize,
    /// One row for each candidate.
    distances: Vec<f32>,
}

impl Facilities {
    fn new(reports: &Reports, candidates: &[u32], all: &[u32], draws: Draws) -> Self {
        let (own, others) = (Vectors::of(reports, candidates), Vectors::of(reports, all));
        let largest = own.largest().max(others.largest());
        let (own, others) = (own.scaled_by(largest), others.scaled_by(largest));
        let distance = |candidate: usize, other: usize| {
            squared_distance(own.row(candidate), others.row(other)).sqrt() as f32
        };
        let distances = (0..candidates.len())
            .flat_map(|candidate| (0..all.len()).map(move |other| (candidate, other)))
            .map(|(candidate, other)| distance(candidate, other));
        Self {
            draws: candidates.iter().map(|&client| draws.of(u64::from(client))).collect(),
            all: all.len(),
            distances: distances.collect(),
        }
    }

    fn row(&self, candidate: usize) -> &[f32] {
        &self.distances[candidate * self.all..][..self.all]
    }

    /// How much nearer everyone's nearest member comes with this candidate. Before there is any member, everyone is
    /// farther away than anyone can be.
    fn offer(&self, candidate: usize, nearest: &[f32]) -> Offer {
        let pairs = nearest.iter().zip(self.row(candidate));
        let gain = pairs.map(|(now, then)| f64::from((now - then).max(0.0))).sum();
        Offer { gain, draw: self.draws[candidate], index: candidate }
    }

    fn nobody_yet(&self) -> Vec<f32> {
        let farthest = self.distances.iter().fold(0.0f32, |farthest, &d| farthest.max(d));
        vec![farthest; self.all]
    }

    fn admit(&self, candidate: usize, nearest: &mut [f32]) {
        for (now, &then) in nearest.iter_mut().zip(self.row(candidate)) {
            *now = now.min(then);
        }
    }

    /// The greedy choice. Gains never grow, so an old one is a bound: only those at the top are looked at again.
    fn choose(&self, places: usize) -> Vec<usize> {
        let mut nearest = self.nobody_yet();
        let mut offers: BinaryHeap<Offer> =
            (0..self.draws.len()).map(|candidate| self.offer(candidate, &nearest)).collect();
        let mut chosen = Vec::with_capacity(places);
        while chosen.len() < places {
            let Some(best) = offers.pop() else { break };
            let now = self.offer(best.index, &nearest);
            if offers.peek().is_some_and(|next| *next > now) {
                offers.push(now);
            } else {
                self.admit(now.index, &mut nearest);
                chosen.push(now.index);
            }
        }
        chosen
    }

    /// The stochastic greedy choice: in each step among some that are drawn for it.
    fn choose_among(&self, sample: usize, places: usize, draws: &Draws) -> Vec<usize> {
        let mut nearest = self.nobody_yet();
        let mut left: Vec<usize> = (0..self.draws.len()).collect();
        let mut chosen = Vec::with_capacity(places);
        while chosen.len() < places.min(self.draws.len()) {
            let mut numbers = draws.sequence(chosen.len() as u64);
            let drawn = sample.min(left.len());
            for place in 0..drawn {
                let others = (left.len() - place) as u128;
                let step = (u128::from(numbers.next_u64()) * others) >> 64;
                left.swap(place, place + step as usize);
            }
            let offers = left[..drawn].iter().enumerate();
            let offers = offers.map(|(at, &candidate)| (self.offer(candidate, &nearest), at));
            let Some((best, at)) = offers.max() else { break };
            left.swap_remove(at);
            self.admit(best.index, &mut nearest);
            chosen.push(best.index);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{TestRound, vector};
    use super::*;

    fn distance(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>().sqrt()
    }

    /// The sum of the distances to the nearest member.
    fn cost(sketches: &[Vec<f32>], members: &[u32]) -> f64 {
        let nearest = |sketch: &Vec<f32>| {
            let all = members.iter().map(|&member| distance(sketch, &sketches[member as usize]));
            all.fold(f64::INFINITY, f64::min)
        };
        sketches.iter().map(nearest).sum()
    }

    fn setup(case: u64, clients: u32, cohort: u32) -> (TestRound, Vec<Vec<f32>>) {
        let sketches: Vec<Vec<f32>> = (0..clients).map(|client| vector(case, client, 6)).collect();
        let setup = TestRound::new(clients, cohort);
        (setup.sketches(|client| Some(sketches[client as usize].clone())), sketches)
    }

    /// Every step takes a client with which the cost is lowest, from the definition. (Two that are nearest to each
    /// other bring the same, so there can be several.)
    fn assert_greedy(sketches: &[Vec<f32>], there: &[bool], members: &[u32]) {
        for step in 0..members.len() {
            let with = |client: u32| cost(sketches, &[&members[..step], &[client]].concat());
            let free = (0..sketches.len() as u32)
                .filter(|client| there[*client as usize] && !members[..step].contains(client));
            let least = free.map(with).fold(f64::INFINITY, f64::min);
            assert!((with(members[step]) - least).abs() < 1e-4, "step {step} of {members:?}");
        }
    }

    #[test]
    fn the_choice_is_greedy() {
        for case in 0..30 {
            let new = || setup(case, 12 + case as u32, 1 + case as u32 % 7);
            let ((everyone, sketches), (fewer, _)) = (new(), new());
            // A client that is away is not chosen, but members of the cohort represent it.
            for setup in [everyone, fewer.without(&[0, 3, 4])] {
                let round = setup.round(case);
                let there: Vec<u32> = round.available().collect();
                let all: Vec<u32> = (0..setup.setting.clients()).collect();
                let draws = round.draws(Stream::DRAW);
                let facilities = Facilities::new(round.reports(), &there, &all, draws);
                let chosen = facilities.choose(setup.setting.cohort() as usize);
                let mut members: Vec<u32> = chosen.into_iter().map(|index| there[index]).collect();
                assert_greedy(&sketches, &setup.mask, &members);
                members.sort_unstable();
                assert_eq!(setup.cohort("divfl", case), members);
                // Looking at everyone in each step is the same.
                assert_eq!(setup.cohort("divfl(sample=99)", case), members);
            }
        }
    }

    /// What is gained over the worst possible distances, against the best of all sets of four of eleven.
    #[test]
    fn greedy_gains_enough() {
        for case in 0..20 {
            let (setup, sketches) = setup(case, 11, 4);
            let pairs = sketches.iter().flat_map(|a| sketches.iter().map(|b| distance(a, b)));
            let nobody = 11.0 * pairs.fold(0.0, f64::max);
            let sets = (0u32..1 << 11).filter(|set| set.count_ones() == 4);
            let members = |set: u32| (0..11).filter(|i| set >> i & 1 == 1).collect::<Vec<u32>>();
            let costs = sets.map(|set| cost(&sketches, &members(set)));
            let best = nobody - costs.fold(f64::INFINITY, f64::min);
            let gained = nobody - cost(&sketches, &setup.cohort("divfl", case));
            assert!(gained <= best + 1e-4 && gained >= (1.0 - f64::exp(-1.0)) * best);
        }
    }

    #[test]
    fn a_step_that_looks_at_few_is_random_and_seldom_worse_than_chance() {
        let (setup, sketches) = setup(1, 60, 5);
        let mut cohorts: Vec<Vec<u32>> =
            (0..40).map(|seed| setup.cohort("divfl(sample=10)", seed)).collect();
        let mean = |cohorts: &[Vec<u32>]| {
            cohorts.iter().map(|cohort| cost(&sketches, cohort)).sum::<f64>() / 40.0
        };
        let random: Vec<Vec<u32>> = (0..40).map(|seed| setup.cohort("random", seed)).collect();
        let full = cost(&sketches, &setup.cohort("divfl", 1));
        assert!(full < mean(&cohorts) && mean(&cohorts) < mean(&random));
        assert!(cohorts.iter().all(|cohort| cohort.len() == 5));
        cohorts.sort();
        cohorts.dedup();
        assert!(cohorts.len() > 20);
    }

    #[test]
    fn who_was_never_heard_comes_first() {
        let known = |client: u32| client >= 3;
        let setup =
            TestRound::new(20, 5).sketches(|client| known(client).then(|| vector(2, client, 4)));
        for seed in 0..10 {
            let cohort = setup.cohort("divfl", seed);
            assert!(cohort.len() == 5 && cohort.starts_with(&[0, 1, 2]), "{cohort:?}");
        }
        let nobody = TestRound::new(20, 5).shares("divfl", 8_000);
        // A deviation of 0.0049; 5 of them.
        assert!(nobody.iter().all(|share| (share - 0.25).abs() < 0.025), "{nobody:?}");
    }

    #[test]
    fn each_kind_has_a_member_in_small_and_large_populations() {
        for clients in [40, 3 * MOST as u32] {
            let like = |client: u32| {
                let (kind, own) = (vector(3, client % 8, 16), vector(4, client, 16));
                kind.into_iter().zip(own).map(|(kind, own)| kind + 0.05 * own).collect()
            };
            let setup = TestRound::new(clients, 8).sketches(|client| Some(like(client)));
            let mut kinds: Vec<u32> =
                setup.cohort("divfl", 5).into_iter().map(|client| client % 8).collect();
            kinds.sort_unstable();
            assert_eq!(kinds, (0..8).collect::<Vec<u32>>(), "{clients} clients");
        }
    }

    #[test]
    fn large_cohorts_are_complete() {
        for (clients, places) in [(1_003, 1_002), (1_500, 700), (1_200, 1_200), (1_001, 1)] {
            let (setup, _) = setup(6, clients, places);
            let cohort = setup.cohort("divfl", 1);
            assert_eq!(cohort.len(), places as usize);
            assert!(cohort.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn extreme_and_equal_sketches_are_fine() {
        let wild = |client: u32| match client % 4 {
            0 => vec![f32::MAX, -f32::MAX],
            1 => vec![-f32::MAX, f32::MAX],
            2 => vec![0.0, 0.0],
            _ => vec![1e-45, 1.0],
        };
        let setup = TestRound::new(12, 6).sketches(|client| Some(wild(client)));
        assert_eq!(setup.cohort("divfl", 1).len(), 6);
        assert_eq!(setup.cohort("divfl(sample=3)", 1).len(), 6);
        let equal = TestRound::new(12, 4).sketches(|_| Some(vec![1.0, 2.0])).shares("divfl", 3_000);
        // Ties are random: a deviation of 0.0086, 5 of them.
        assert!(equal.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.043), "{equal:?}");
    }
}
