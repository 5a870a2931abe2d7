//! `age-herding`: cohorts whose updates balance each other, from clients whose turn it is.
//!
//! Each client has a sketch of its last accepted update, scaled to unit length. A cohort is balanced if the sum of its
//! (sketch - mean of all sketches) is near zero: its mean update is then near that of everyone, although only m were
//! asked. It is herding (Welling, 2009) under a constraint of age, in two forms:
//!
//! - With `ahead` rounds of 2 or more (the default: the n/m rounds in which every client has a turn) the cohorts of the next
//!   rounds are planned together from the oldest clients, balanced cohorts against punctual ones (`schedule`); the
//!   first of them is taken, and the rest is planned again in the next round with what was learnt until then.
//! - With `ahead=1` the candidates are the ceil(slack m) oldest clients; the oldest is taken first, then again and again
//!   the candidate that brings the sum closest to zero (`greedy`). That takes the best for itself and leaves
//!   what does not fit to later rounds, which is why planning learns faster (docs/policies.md).
//!
//! GraB and CD-GraB (Lu et al., 2022; Cooper et al., 2023) order the examples of a pass by the same sums; DivFL and
//! clustered sampling want cohorts that represent everyone too, and do not know how long a client has waited.
//!
//! A client without a sketch counts as the mean. While fewer than half of all clients have one, the policy is
//! `oldest-first`, unless it may ask: with `probe`, clients without a sketch are asked for that of one step under the present
//! model, before the first round. With the answers the whole first schedule is planned; its steady state, which a
//! stationary start is to begin with, is a balanced schedule.
//!
//! The bound: no client waits longer than `bound` rounds. Of the clients who must be taken within the next k rounds, at most
//! (k - 1) m can be left to the rounds after this one; the others are taken now, the oldest first, whatever k it is that
//! demands most. As long as everyone is available this keeps the bound for ever: it is the earliest deadline first, and
//! `bound` >= n/m makes the first deadlines feasible.
//!
//! Large cohorts are put together from parts, each from candidates of its own: sums of balanced sums are balanced, and
//! the work grows with m and not with its square.

mod centred;
mod greedy;
mod schedule;
#[cfg(test)]
mod tests;

use super::sampling::{first_by, into_picks, number_option, unknown_at_the_start, whole_option};
use crate::error::Result;
use crate::policies;
use crate::policy::PolicySpec;
use crate::policy::{Needs, Policy, PolicyEntry, Probe, ProbeKind, uniform_inclusion};
use crate::random::{Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::weighting::Weighting;
use centred::Centred;
use schedule::Schedule;
use std::cmp::Reverse;

/// The rounds that are planned if nothing else is said: fewer where a plan of more would be large. Five do nearly as well.
const USUAL_AHEAD: [u32; 2] = [10, 20];
/// The most rounds of one plan: in parts of fewer than four clients there would be too little to balance with.
const MOST_AHEAD: u32 = LARGEST_PLAN / 4;
/// Longer than any run.
const LARGEST_BOUND: f64 = 1e15;
/// The most clients of one plan: the work grows with its square.
const LARGEST_PLAN: u32 = 128;
/// The most clients that are taken greedily from one set of candidates.
const LARGEST_PART: usize = 128;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "age-herding",
    summary: "cohorts whose updates balance each other, from the clients whose turn it is: even load, and cohorts that represent everyone.",
    options: &[
        (
            "ahead",
            "rounds that are planned together, 1 to 32 (n/m, at most 20, or 10 of large cohorts)",
        ),
        (
            "punctual",
            "with ahead=2 or more: what being d rounds early or late costs in a plan: punctual * d^2 (0.1)",
        ),
        ("slack", "with ahead=1: candidates are the slack * m oldest clients, 1 or more (2)"),
        ("bound", "the most rounds that a client waits, at least n/m (1.5 n/m)"),
        ("probe", "1: clients without a sketch are asked for one before the first round (1)"),
        ("by_size", "1: sums are weighted by data size, for weights by data size (0)"),
    ],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |spec, setting| Ok(Box::new(AgeHerding::new(spec, setting)?)),
};

#[derive(Debug)]
struct AgeHerding {
    spec: PolicySpec,
    ahead: usize,
    punctual: f64,
    slack: f64,
    bound: u64,
    probes: bool,
    by_size: bool,
    /// For the time before there are sketches.
    oldest_first: Box<dyn Policy>,
}

impl AgeHerding {
    fn new(spec: &PolicySpec, setting: &Setting) -> Result<Self> {
        let interval = setting.interval();
        let affordable = (LARGEST_PLAN / setting.cohort()).clamp(USUAL_AHEAD[0], USUAL_AHEAD[1]);
        let usual_ahead = (interval as u32).clamp(1, affordable);
        let least = interval.ceil();
        let bound = spec.number("bound")?.unwrap_or((1.5 * interval).ceil());
        if !(least..=LARGEST_BOUND).contains(&bound) || bound.fract() != 0.0 {
            let expected = format!(
                "a whole number of at least {least} (n/m rounded up) and at most {LARGEST_BOUND:e}"
            );
            return Err(spec.wrong("bound", bound, &expected));
        }
        let ahead = whole_option(spec, "ahead", 1, MOST_AHEAD)?.unwrap_or(usual_ahead);
        let (unused, when) =
            if ahead == 1 { ("punctual", "ahead=2 or more") } else { ("slack", "ahead=1") };
        if let Some(number) = spec.number(unused)? {
            return Err(spec.wrong(
                unused,
                number,
                &format!("nothing, as it counts with {when} only"),
            ));
        }
        let switch =
            |option: &str, usual| Ok(whole_option(spec, option, 0, 1)?.unwrap_or(usual) == 1);
        Ok(Self {
            spec: spec.clone(),
            // There is nothing to plan beyond one turn of every client.
            ahead: f64::from(ahead).min(least) as usize,
            punctual: number_option(spec, "punctual", 0.1, 0.0, 1e6)?,
            slack: number_option(spec, "slack", 2.0, 1.0, 1e9)?,
            bound: bound as u64,
            probes: switch("probe", 1)?,
            by_size: switch("by_size", 0)?,
            oldest_first: policies::build(&PolicySpec::named("oldest-first"), setting)?,
        })
    }

    /// The oldest available clients, oldest first, ties at random.
    fn oldest(round: &Round<'_>, count: usize) -> Vec<u32> {
        let draws = round.draws(Stream::DRAW);
        let key =
            |client: u32| (Reverse(round.ages().of(client)), draws.of(u64::from(client)), client);
        let keyed = round.available().map(key).collect();
        let mut oldest = first_by(keyed, count, Ord::cmp);
        oldest.sort_unstable();
        oldest.into_iter().map(|(_, _, client)| client).collect()
    }

    /// The weight of a client's sketch in sums.
    fn weight(&self, round: &Round<'_>, client: u32) -> f64 {
        if self.by_size { round.sizes().of(client) } else { 1.0 }
    }

    /// How many of the oldest have to be taken now, so that no client will wait longer than the bound.
    fn due(&self, round: &Round<'_>) -> usize {
        let (m, n) = (u64::from(round.setting().cohort()), u64::from(round.setting().clients()));
        // How many can wait for 0, 1, 2, ... more rounds; from n/m on nothing follows for this one.
        let mut can_wait = vec![0u64; n.div_ceil(m) as usize];
        for client in round.available() {
            // An age of bound - 1 makes X = bound, and more if it is passed over.
            let rounds = (self.bound - 1).saturating_sub(round.ages().of(client));
            if let Some(count) = can_wait.get_mut(usize::try_from(rounds).unwrap_or(usize::MAX)) {
                *count += 1;
            }
        }
        let (mut within, mut due) = (0, 0);
        for (later_rounds, count) in (0..).zip(can_wait) {
            within += count;
            due = due.max(u64::saturating_sub(within, later_rounds * m));
        }
        due.min(m) as usize
    }

    fn herd(&self, round: &Round<'_>) -> Vec<u32> {
        let m = round.setting().cohort() as usize;
        let rounds = if self.ahead == 1 { self.slack } else { self.ahead as f64 };
        let candidates = Self::oldest(round, (rounds * m as f64).ceil() as usize);
        if candidates.len() <= m {
            return candidates;
        }
        let due = self.due(round);
        let mean = Centred::mean(round, |client| self.weight(round, client));
        if self.ahead == 1 {
            return self.greedily(round, &candidates, due, &mean);
        }
        let interval = round.setting().interval();
        let until_due = |client: u32| interval - 1.0 - round.ages().of(client) as f64;
        let rounds = self.planned(round, &candidates, due, &mean, until_due);
        let now = rounds.into_iter().zip(candidates).filter(|&(round, _)| round == 0);
        now.map(|(_, client)| client).collect()
    }

    /// One cohort of the candidates, which come in order of age.
    fn greedily(
        &self,
        round: &Round<'_>,
        candidates: &[u32],
        due: usize,
        mean: &[f32],
    ) -> Vec<u32> {
        let m = round.setting().cohort() as usize;
        let mut taken = Vec::with_capacity(m);
        for places in parts(candidates.len(), m, LARGEST_PART) {
            let clients: Vec<u32> = places.iter().map(|&place| candidates[place]).collect();
            let centred = Centred::new(round, &clients, mean, |client| self.weight(round, client));
            let before = |limit: usize| places.iter().take_while(|&&place| place < limit).count();
            let chosen = greedy::choose(&centred, before(m), before(due));
            taken.extend(chosen.into_iter().map(|place| clients[place]));
        }
        taken
    }

    /// The round of each candidate, from candidates in order of age.
    fn planned(
        &self,
        round: &Round<'_>,
        candidates: &[u32],
        due: usize,
        mean: &[f32],
        until_due: impl Fn(u32) -> f64,
    ) -> Vec<usize> {
        let m = round.setting().cohort() as usize;
        let mut rounds = vec![0; candidates.len()];
        for places in parts(candidates.len(), m, (LARGEST_PLAN as usize / self.ahead).max(1)) {
            let clients: Vec<u32> = places.iter().map(|&place| candidates[place]).collect();
            let centred = Centred::new(round, &clients, mean, |client| self.weight(round, client));
            let by_age = places.iter().map(|place| place / m).collect();
            let until_due = clients.iter().map(|&client| until_due(client)).collect();
            let fixed = places.iter().take_while(|&&place| place < due).count();
            let mut plan = Schedule::new(&centred, by_age, until_due, fixed, self.punctual);
            plan.settle();
            for (&place, &round) in places.iter().zip(plan.groups()) {
                rounds[place] = round;
            }
        }
        rounds
    }

    /// Whether there are sketches enough.
    fn can_herd(round: &Round<'_>) -> bool {
        2 * round.reports().sketches().count() >= round.setting().clients() as usize
    }
}

/// The places of candidates in parts. Each has its share of every m candidates, at most `largest` of them, so all have old
/// and young ones alike.
fn parts(candidates: usize, m: usize, largest: usize) -> impl Iterator<Item = Vec<usize>> {
    let parts = m.div_ceil(largest);
    (0..parts).map(move |part| (0..candidates).filter(|place| place % m % parts == part).collect())
}

impl Policy for AgeHerding {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        if Self::can_herd(round) {
            into_picks(self.herd(round))
        } else {
            self.oldest_first.select(round)
        }
    }

    /// It depends on the updates; as every client has a turn in about n/m rounds, all count as equally likely.
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    /// A schedule: m clients of each age below n/m, in random order.
    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        self.oldest_first.initial_ages(setting, seed)
    }

    /// The same schedule in balanced order.
    fn initial_ages_from_probes(&self, round: &Round<'_>) -> Option<Vec<u64>> {
        if self.ahead == 1 || !Self::can_herd(round) {
            return None;
        }
        let m = round.setting().cohort() as usize;
        let mut ages = self.initial_ages(round.setting(), round.seed());
        let mut order: Vec<u32> = (0..round.setting().clients()).collect();
        order.sort_by_key(|&client| Reverse(ages[client as usize]));
        let mean = Centred::mean(round, |client| self.weight(round, client));
        for block in order.chunks_mut(self.ahead * m) {
            // No client is early or late before the first round.
            let rounds = self.planned(round, block, 0, &mean, |_| 0.0);
            let mut planned: Vec<(usize, u32)> = rounds.into_iter().zip(block.to_vec()).collect();
            planned.sort_by_key(|&(round, _)| round);
            for (place, (_, client)) in block.iter_mut().zip(planned) {
                *place = client;
            }
        }
        let mut oldest_first = ages.clone();
        oldest_first.sort_unstable_by_key(|&age| Reverse(age));
        for (client, age) in order.into_iter().zip(oldest_first) {
            ages[client as usize] = age;
        }
        Some(ages)
    }

    fn needs(&self) -> Needs {
        Needs { training: true, update_sketches: true, ..Needs::default() }
    }

    fn probes(&self, round: &Round<'_>) -> Vec<Probe> {
        if !self.probes {
            return Vec::new();
        }
        Probe::all(ProbeKind::UpdateStep, unknown_at_the_start(round))
    }

    /// What is planned follows from n/m; a bound that was given can be too low for more clients.
    fn population_changed(&mut self, setting: &Setting) -> Result<()> {
        *self = Self::new(&self.spec, setting)?;
        Ok(())
    }
}
