//! `phased`: every client takes part periodically, with a phase of its own; ages are not revealed.
//!
//! A client with phase phi is due in round t iff floor((t+1) r + phi) > floor(t r + phi), so X is one of the
//! two whole numbers around n/m. With phases by join order from the golden ratio sequence the cohort stays
//! within one or two of m. Decentralised, and nearly both minima at once. The price: the same neighbours
//! meet again and again ([`crate::metrics::CoParticipation`] measures it), unless phases are slowly reshuffled.
//!
//! A client that misses its turn (offline, or its report was lost) stays due until it is credited, because
//! the rule looks at all rounds since its age began and not only at the present one. With `grace` it stays due for so
//! many rounds only, and then waits for its next turn: so no client can choose the round in which it comes, as turns
//! follow from its number and the round, and nothing that it does moves them.
//!
//! Reshuffling: once per ceil(n/m) rounds, slots s and (c - s) mod n swap their phases with probability
//! `reshuffle`, c being random and public. The set of phases stays as it is, and so do the cohort
//! sizes; what changes is which client has which phase. A client that swaps may have one shorter or longer interval.

use crate::error::Result;
use crate::law::AgeLaw;
use crate::math::square;
use crate::policy::{LocalRule, Policy, PolicyEntry};
use crate::random::{Chance, Draw, Draws, Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::{EmptyCohort, Setting};
use crate::theory::deterministic::{MOST_DECISIONS, replay};
use crate::theory::phased::{self, phase, position};
use crate::theory::windows::{mixed_periodic_window_sd, periodic_window_sd};
use crate::theory::{PolicyTheory, Sigma, WINDOW_LENGTHS, unbiased_sigma};
use crate::weighting::Weighting;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "phased",
    summary: "each client keeps a rhythm of its own: ages stay private, cohorts stay near m.",
    options: &[
        ("reshuffle", "the share of clients that swap phases in n/m rounds, from 0 to 1"),
        ("grace", "for how many rounds a missed turn can be made up (for ever)"),
    ],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |spec, setting| {
        let share = spec.number("reshuffle")?.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&share) {
            return Err(spec.wrong("reshuffle", share, "a share from 0 to 1"));
        }
        if share > 0.0 && setting.rates().is_some() {
            return Err(spec.wrong("reshuffle", share, "0 where clients have rates of their own"));
        }
        let grace = match spec.number("grace")? {
            None => None,
            Some(rounds)
                if rounds >= 0.0 && rounds <= f64::from(u32::MAX) && rounds.fract() == 0.0 =>
            {
                Some(rounds as u32)
            }
            Some(rounds) => return Err(spec.wrong("grace", rounds, "a whole number of rounds")),
        };
        if share > 0.0 && grace.is_some() {
            return Err(spec.wrong("grace", "given", "none where phases are reshuffled"));
        }
        Ok(Box::new(Phased::new(setting, share, grace)))
    },
};

/// Which phase a client has, and since which round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    slot: u32,
    since: i64,
}

#[derive(Debug)]
struct Phased {
    clients: u32,
    /// The rates of clients that have their own, and the rate and the step of those that have none.
    rates: Option<Arc<[f64]>>,
    common_rate: f64,
    common_step: u128,
    /// For how many rounds a missed turn can be made up; without limit, if absent.
    grace: Option<u32>,
    /// The share of clients that swap in a cycle, and the same as a chance.
    share: f64,
    reshuffle: Chance,
    /// The rounds after which phases may be swapped.
    cycle: u64,
    /// The places of all clients in the cycle of this number, so that a round need not replay the
    /// swaps of all cycles before it. Empty while there are no swaps.
    places: (u64, Vec<Place>),
}

impl Phased {
    fn new(setting: &Setting, reshuffle: f64, grace: Option<u32>) -> Self {
        Self {
            clients: setting.clients(),
            rates: setting.shared_rates(),
            common_rate: setting.common_rate(),
            // n/m is a fraction and gives an exact step.
            common_step: match setting.own_interval() {
                None => phased::step(setting.cohort(), setting.clients()),
                Some(interval) => phased::step_of_rate(1.0 / interval),
            },
            grace,
            share: reshuffle,
            reshuffle: Chance::new(reshuffle),
            cycle: setting.interval().ceil() as u64,
            places: (0, Vec::new()),
        }
    }

    /// The client's rate, as a step on the circle of phases.
    fn step(&self, client: u32) -> u128 {
        match &self.rates {
            None => self.common_step,
            Some(rates) => phased::step_of_rate(rates[client as usize]),
        }
    }

    /// The longest X with swaps: nearly due under the old phase, just missed under the new.
    fn longest_wait(&self) -> u64 {
        2 * self.cycle - 1
    }

    /// The place in which a client starts: its join order, since ever.
    fn first_place(client: u32) -> Place {
        Place { slot: client, since: i64::MIN }
    }

    /// The place after the swaps at the beginning of one cycle. They are the same for every run: all
    /// clients must know them, and nothing is won by hiding them.
    fn swap(&self, place: Place, cycle: u64) -> Place {
        let clients = u64::from(self.clients);
        let draws = Draws::new(Seed(0), Stream::RESHUFFLE, cycle);
        let mirror = (u128::from(draws.of(u64::MAX).bits()) * u128::from(clients)) >> 64;
        let partner = ((mirror as u64 + clients - u64::from(place.slot)) % clients) as u32;
        let pair = draws.of(u64::from(partner.min(place.slot)));
        if partner != place.slot && self.reshuffle.wins(pair) {
            Place { slot: partner, since: (cycle * self.cycle) as i64 }
        } else {
            place
        }
    }

    /// The place of one client, found by replaying the swaps.
    fn place(&self, client: u32, round: u64) -> Place {
        let first = Self::first_place(client);
        if self.reshuffle == Chance::NEVER || client >= self.clients {
            return first;
        }
        (1..=round / self.cycle).fold(first, |place, cycle| self.swap(place, cycle))
    }

    /// Brings the places of all clients to this round, from those of the last one that was asked for.
    fn move_places(&mut self, round: u64) {
        let cycle = round / self.cycle;
        let (mut known, mut places) = std::mem::take(&mut self.places);
        if places.is_empty() || known > cycle {
            known = 0;
            places = (0..self.clients).map(Self::first_place).collect();
        }
        for cycle in known + 1..=cycle {
            for place in &mut places {
                *place = self.swap(*place, cycle);
            }
        }
        self.places = (cycle, places);
    }

    /// Whether the client was due in any round since its age began (and since it has this phase).
    fn is_due(&self, place: Place, round: u64, client: u32, age: u64) -> bool {
        if self.reshuffle != Chance::NEVER && age >= self.longest_wait() {
            // Only a missed turn makes anyone wait so long, and a swap has hidden it.
            return true;
        }
        // Turns before this one are over.
        let looks_back = self.grace.map_or(age, |grace| age.min(u64::from(grace)));
        let begin = (round as i64 - looks_back as i64).max(place.since);
        let rounds = (round as i64 - begin + 1) as u64;
        let Ok(step) = u64::try_from(self.step(client)) else {
            // A full turn in each round.
            return true;
        };
        // A number that does not fit into 64 bits has passed the top.
        let (way, turned) = step.overflowing_mul(rounds);
        turned || position(phase(place.slot), u128::from(step), begin).overflowing_add(way).1
    }

    /// Cohort sizes and Sigma over a whole period; by counting where asking everyone takes too long.
    fn cohorts(&self, setting: &Setting, weighting: Weighting) -> Cohorts {
        const LONGEST: u64 = 4_096;
        let fraction = setting.rates().is_none() && setting.own_interval().is_none();
        let clients = u64::from(setting.clients());
        let period =
            if fraction { phased::period(setting.clients(), setting.cohort()) } else { LONGEST };
        let rounds = period.min(LONGEST);
        if rounds * clients <= MOST_DECISIONS || !fraction {
            let rounds = rounds.min(MOST_DECISIONS / clients).max(1);
            let due = |round: u64, client| self.is_due(Self::first_place(client), round, client, 0);
            let replay = replay(setting, weighting, rounds, due);
            let exact = rounds == period && fraction;
            let sigma = Sigma { value: replay.sigma, exact };
            return Cohorts { sizes: replay.cohort_sizes, sigma: Some(sigma) };
        }
        let sizes: Vec<u64> = (0..rounds)
            .map(|round| phased::due(setting.clients(), setting.cohort(), round))
            .collect();
        let equal = weighting != Weighting::DataSize || setting.sizes().are_equal();
        let empty = match setting.empty_cohort() {
            EmptyCohort::ForceOne => 1.0,
            EmptyCohort::Skip => 0.0,
        };
        let reciprocal = |&size: &u64| if size == 0 { empty } else { 1.0 / size as f64 };
        let square = sizes.iter().map(reciprocal).sum::<f64>() / sizes.len() as f64;
        // Mean weights differ from 1/n only in so far as cohort sizes differ: by about 1/m of it.
        let sigma = Sigma { value: square - 1.0 / clients as f64, exact: false };
        Cohorts { sizes, sigma: equal.then_some(sigma) }
    }
}

impl Phased {
    /// What swaps change: in an interval that meets one, the client's age is that of its old phase, and
    /// what it still waits that of an independent new one.
    fn with_swaps(&self, theory: PolicyTheory) -> PolicyTheory {
        if self.reshuffle == Chance::NEVER {
            return theory;
        }
        // X is i or i + 1, so ages under i are equally likely and age i is c times as likely.
        let mean = theory.mean_interval;
        let (i, c) = (mean.floor(), mean.fract());
        let age = (i * (i - 1.0) / 2.0 + c * i) / mean;
        let age_square = ((i - 1.0) * i * (2.0 * i - 1.0) / 6.0 + c * i * i) / mean;
        let swapped = 2.0 * (age_square - age * age) + square(2.0 * age + 1.0 - mean);
        let share = self.share * mean / self.cycle as f64;
        PolicyTheory {
            var_interval: theory.var_interval + share * (swapped - theory.var_interval),
            longest_wait: Some(self.longest_wait()),
            window_sd: BTreeMap::new(),
            interval_distribution: Vec::new(),
            ..theory
        }
    }
}

struct Cohorts {
    sizes: Vec<u64>,
    sigma: Option<Sigma>,
}

impl Policy for Phased {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let number = round.number();
        if self.reshuffle == Chance::NEVER {
            let due = |&client: &u32| {
                self.is_due(Self::first_place(client), number, client, round.ages().of(client))
            };
            return round.available().filter(due).map(Pick::once).collect();
        }
        self.move_places(number);
        let due = |&client: &u32| {
            // Who joined after the setting was made has a phase too, and keeps it.
            let known = self.places.1.get(client as usize);
            let place = known.copied().unwrap_or(Self::first_place(client));
            self.is_due(place, number, client, round.ages().of(client))
        };
        round.available().filter(due).map(Pick::once).collect()
    }

    fn inclusion(&self, _round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        let rate = |&client: &u32| match &self.rates {
            None => self.common_rate,
            Some(rates) => rates[client as usize],
        };
        clients.iter().map(rate).collect()
    }

    /// The rounds since the client was last due before round 0.
    fn initial_ages(&self, setting: &Setting, _seed: Seed) -> Vec<u64> {
        let age = |client| (u128::from(phase(client)) / self.step(client)) as u64;
        (0..setting.clients()).map(age).collect()
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<Option<PolicyTheory>> {
        let theory = PolicyTheory::fixed_cohort(setting, &AgeLaw::unsaturated(setting.interval()));
        let cohorts = self.cohorts(setting, weighting);
        let rounds = cohorts.sizes.len() as f64;
        let mean = cohorts.sizes.iter().sum::<u64>() as f64 / rounds;
        let deviations = cohorts.sizes.iter().map(|&size| square(size as f64 - mean));
        let sigma = match weighting {
            Weighting::Unbiased => {
                Some(Sigma::exact(unbiased_sigma(setting, |client| setting.rate(client))))
            }
            _ => cohorts.sigma,
        };
        let empty = cohorts.sizes.iter().filter(|&&size| size == 0).count() as f64;
        let theory = PolicyTheory {
            cohort_mean: mean,
            cohort_sd: (deviations.sum::<f64>() / rounds).sqrt(),
            empty_probability: empty / rounds,
            window_sd: periodic_window_sd(setting.rate(0), &WINDOW_LENGTHS),
            ..theory
        };
        Ok(Some(self.with_swaps(with_rates(theory, setting)).with_sigma(sigma)))
    }

    /// Everyone's steps follow from n/m, and swaps from n. The places are found again in the next round.
    fn population_changed(&mut self, setting: &Setting) -> Result<()> {
        *self = Self::new(setting, self.share, self.grace);
        Ok(())
    }

    fn local_rule(&self) -> Option<&dyn LocalRule> {
        Some(self)
    }
}

/// Intervals of clients that have rates of their own: one of the two whole numbers around each 1/r.
fn with_rates(theory: PolicyTheory, setting: &Setting) -> PolicyTheory {
    let Some(rates) = setting.rates() else {
        return theory;
    };
    let sum: f64 = rates.iter().sum();
    let mean = rates.len() as f64 / sum;
    let spread = |&rate: &f64| {
        let part = (1.0 / rate).fract();
        rate * (part * (1.0 - part) + square(1.0 / rate - mean))
    };
    let longest = rates.iter().map(|rate| (1.0 / rate).ceil() as u64).max();
    PolicyTheory {
        mean_interval: mean,
        var_interval: rates.iter().map(spread).sum::<f64>() / sum,
        longest_wait: longest,
        window_sd: mixed_periodic_window_sd(rates, &WINDOW_LENGTHS),
        interval_distribution: Vec::new(),
        ..theory
    }
}

impl LocalRule for Phased {
    fn takes_part(&self, round: u64, client: u32, age: u64, _draw: Draw) -> bool {
        self.is_due(self.place(client, round), round, client, age)
    }
}
