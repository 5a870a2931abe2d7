//! `age-herding`: among the oldest clients, those whose updates balance each other.
//!
//! Each client has a sketch of its last accepted update, scaled to unit length. The candidates of a round are the
//! ceil(slack m) oldest available clients. The oldest is taken first, then again and again the candidate that brings
//! the sum of (sketch - mean of all sketches) closest to zero, until there are m: the cohort's mean update is then near
//! that of everyone, although only m were asked. It is herding (Welling, 2009) under a constraint of age. GraB and
//! CD-GraB (Lu et al., 2022; Cooper et al., 2023) order the examples of a pass by the same sums; DivFL and clustered
//! sampling want cohorts that represent everyone too, and do not know how long a client has waited.
//!
//! A client without a sketch counts as the mean. While fewer than half of all clients have one, the policy is
//! `oldest-first`, unless it may ask: with `probe`, who has no sketch is asked for that of one step under the present
//! model, before the first round.
//!
//! The bound: whoever would wait longer than `bound` rounds if passed over is taken before all others. At most m
//! clients were credited in the same round, so at most m come due at once, and nobody waits longer while everyone is
//! available.

use super::vectors::{Vectors, dot};
use crate::error::Result;
use crate::policies;
use crate::policy::{Pick, Policy, PolicyEntry, Round, alike};
use crate::random::{Seed, Stream};
use crate::setting::Setting;
use crate::spec::PolicySpec;
use crate::weighting::Weighting;
use std::cmp::Reverse;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "age-herding",
    summary: "of the oldest clients those whose updates balance each other: even load, and cohorts that represent everyone.",
    options: &[
        ("slack", "candidates are the slack * m oldest clients, 1 or more (2)"),
        ("bound", "the most rounds that anybody waits, at least n/m (1.5 n/m)"),
        ("probe", "1: clients without a sketch are asked for one before the first round (1)"),
        ("by_size", "1: sums are weighted by data size, for weights by data size (0)"),
    ],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |spec, setting| Ok(Box::new(AgeHerding::new(spec, setting)?)),
};

#[derive(Debug)]
struct AgeHerding {
    slack: f64,
    bound: u64,
    probes: bool,
    by_size: bool,
    /// For everything that only follows age.
    oldest_first: Box<dyn Policy>,
}

impl AgeHerding {
    fn new(spec: &PolicySpec, setting: &Setting) -> Result<Self> {
        let slack = spec.number("slack")?.unwrap_or(2.0);
        if !(1.0..=1e9).contains(&slack) {
            return Err(spec.wrong("slack", slack, "a number of at least 1"));
        }
        let least = setting.interval().ceil();
        let bound = spec.number("bound")?.unwrap_or((1.5 * setting.interval()).ceil());
        if !(least..=1e15).contains(&bound) || bound.fract() != 0.0 {
            return Err(spec.wrong("bound", bound, &format!("a whole number of at least {least}")));
        }
        let switch = |option: &str, usual: bool| match spec.number(option)? {
            None => Ok(usual),
            Some(value) if value == 0.0 || value == 1.0 => Ok(value == 1.0),
            Some(value) => Err(spec.wrong(option, value, "0 or 1")),
        };
        Ok(Self {
            slack,
            bound: bound as u64,
            probes: switch("probe", true)?,
            by_size: switch("by_size", false)?,
            oldest_first: policies::build(&PolicySpec::named("oldest-first"), setting)?,
        })
    }

    /// The available clients, oldest first, ties at random.
    fn by_age(round: &Round<'_>) -> Vec<u32> {
        let lots = round.lots(Stream::LOT);
        let key = |client: &u32| {
            (Reverse(round.ages().of(*client)), lots.of(u64::from(*client)), *client)
        };
        let mut clients: Vec<u32> = round.available().collect();
        clients.sort_unstable_by_key(key);
        clients
    }

    /// The cohort, in the order in which it was taken, from clients in order of age.
    fn herd(&self, round: &Round<'_>, by_age: &[u32]) -> Vec<u32> {
        let cohort = (round.setting().cohort() as usize).min(by_age.len());
        // An age of bound - 1 now makes X = bound if it is taken, and more if not.
        let due = |&&client: &&u32| round.ages().of(client) + 1 >= self.bound;
        let forced = by_age.iter().take(cohort).take_while(due).count().max(1);
        let candidates = (self.slack * cohort as f64).ceil() as usize;
        let candidates = &by_age[..candidates.clamp(cohort, by_age.len())];
        let sums = Sums::new(self, round, candidates);
        let mut taken = sums.take_first(forced.min(cohort));
        let mut sum = sums.of(&taken);
        let mut left: Vec<usize> = (taken.len()..candidates.len()).collect();
        while taken.len() < cohort {
            let Some(best) = sums.closest_to_zero(&sum, &left) else {
                break;
            };
            let next = left.remove(best);
            sums.add(&mut sum, next);
            taken.push(next);
        }
        taken.into_iter().map(|place| candidates[place]).collect()
    }
}

/// The candidates' sketches about the mean of all, each with its weight.
struct Sums {
    vectors: Vectors,
    squares: Vec<f64>,
}

impl Sums {
    fn new(policy: &AgeHerding, round: &Round<'_>, candidates: &[u32]) -> Self {
        let reports = round.reports();
        let known: Vec<u32> = (0..round.setting().clients())
            .filter(|&client| reports.sketch(client).is_some())
            .collect();
        let weight = |client: u32| if policy.by_size { round.sizes().of(client) } else { 1.0 };
        let mean = Vectors::of(reports, &known).at_unit_length().mean(known.iter().map(|&c| weight(c)));
        let is_known: Vec<bool> =
            candidates.iter().map(|&client| reports.sketch(client).is_some()).collect();
        let mut vectors = Vectors::of(reports, candidates).at_unit_length();
        for (place, (&client, known)) in candidates.iter().zip(is_known).enumerate() {
            // Who is not known counts as the mean, which is the origin here.
            let scale = if known { weight(client) as f32 } else { 0.0 };
            for (number, mean) in vectors.row_mut(place).iter_mut().zip(&mean) {
                *number = scale * (*number - mean);
            }
        }
        let squares = (0..candidates.len())
            .map(|place| dot(vectors.row(place), vectors.row(place)))
            .collect();
        Self { vectors, squares }
    }

    fn take_first(&self, count: usize) -> Vec<usize> {
        (0..count.min(self.squares.len())).collect()
    }

    fn of(&self, places: &[usize]) -> Vec<f32> {
        let mut sum = vec![0.0; self.vectors.width()];
        for &place in places {
            self.add(&mut sum, place);
        }
        sum
    }

    fn add(&self, sum: &mut [f32], place: usize) {
        for (sum, number) in sum.iter_mut().zip(self.vectors.row(place)) {
            *sum += number;
        }
    }

    /// Which of those that are left brings the sum closest to zero; the first of equals.
    fn closest_to_zero(&self, sum: &[f32], left: &[usize]) -> Option<usize> {
        // |sum + v|^2 without |sum|^2, which is the same for all.
        let value = |&place: &usize| {
            2.0 * dot(sum, self.vectors.row(place)) + self.squares[place]
        };
        let values = left.iter().map(value).enumerate();
        values.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
    }
}

impl Policy for AgeHerding {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let clients = round.setting().clients();
        let known = (0..clients).filter(|&client| round.reports().sketch(client).is_some()).count();
        if 2 * known < clients as usize {
            return self.oldest_first.select(round);
        }
        let mut cohort = self.herd(round, &Self::by_age(round));
        cohort.sort_unstable();
        cohort.into_iter().map(Pick::once).collect()
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        alike(round, clients)
    }

    fn first_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        self.oldest_first.first_ages(setting, seed)
    }

    fn wants_sketches(&self) -> bool {
        true
    }

    fn asks_sketches(&self, round: &Round<'_>) -> Vec<u32> {
        if !self.probes || round.number() > 0 {
            return Vec::new();
        }
        round.available().filter(|&client| round.reports().sketch(client).is_none()).collect()
    }
}
