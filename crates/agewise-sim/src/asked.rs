//! The engine for any policy: it is asked for its cohort in every round, and sees all clients.

use crate::played::Played;
use crate::tally::{self, CreditSums, Fresh, Tally, credit};
use crate::world::{RoundWorld, World};
use agewise_core::metrics::{Intervals, WeightMoments, WindowTally};
use agewise_core::{
    Ages, Availability, EmptyCohort, Pick, Policy, Reports, Result, Round, Setting, Stream,
    Weighed, Weighting,
};
use std::collections::BTreeMap;

/// A population in order of number; 24 bytes per client, and one more where clients come and go.
#[derive(Debug)]
pub(crate) struct Asked {
    policy: Box<dyn Policy>,
    setting: Setting,
    world: World,
    weighting: Weighting,
    warmup: u64,
    first_clients: u32,
    ages: Ages,
    tallies: Vec<Tally>,
    /// Who is there: has joined, has not left; empty while nobody moves.
    present: Vec<bool>,
    /// Who was online, for worlds with a memory.
    online: Vec<bool>,
    intervals: Intervals,
    weights: WeightMoments,
    windows: Vec<WindowTally>,
    cohort: Vec<u32>,
}

impl Asked {
    /// A population with these first ages. `setting` has the sizes of all clients that will ever join.
    pub(crate) fn new(
        policy: Box<dyn Policy>,
        setting: Setting,
        world: World,
        weighting: Weighting,
        warmup: u64,
        first_ages: Vec<u64>,
    ) -> Self {
        let clients = setting.clients();
        let first_clients = first_ages.len() as u32;
        let moves = world.join > 0.0 || world.leave > 0.0;
        let memory = world.at(0).has_memory();
        let to_come = std::iter::repeat_n(0, (clients - first_clients) as usize);
        Self {
            ages: Ages::new(first_ages.into_iter().chain(to_come)),
            tallies: vec![Tally::default(); clients as usize],
            present: if moves {
                (0..clients).map(|c| c < first_clients).collect()
            } else {
                Vec::new()
            },
            online: if memory {
                (0..clients).map(|client| world.starts_online(client)).collect()
            } else {
                Vec::new()
            },
            intervals: Intervals::default(),
            weights: WeightMoments::new(u64::from(clients)),
            windows: tally::windows(u64::from(clients)),
            cohort: Vec::new(),
            policy,
            setting,
            world,
            weighting,
            warmup,
            first_clients,
        }
    }

    /// Plays one round.
    pub(crate) fn play(&mut self, number: u64) -> Result<Played> {
        let now = self.world.at(number);
        self.begin(&now, number);
        let mask = self.mask(&now);
        let availability = match &mask {
            None => Availability::Everyone,
            Some(mask) => Availability::Only(mask),
        };
        let reports = Reports::default();
        let round = Round::new(&self.setting, self.world.seed, &self.ages, availability, &reports)?;
        let mut picks = self.policy.select(&round);
        let mut forced = false;
        if picks.is_empty() && self.setting.empty_cohort() == EmptyCohort::ForceOne {
            let lots = round.lots(Stream::FORCED);
            let lowest = round.available().min_by_key(|&client| lots.of(u64::from(client)));
            picks.extend(lowest.map(Pick::once));
            forced = !picks.is_empty();
        }
        let selected = picks.len() as u64;
        picks.retain(|pick| !now.drops_out(pick.client));
        self.cohort = picks.iter().map(|pick| pick.client).collect();
        let weights = self.weigh(&round, &picks);
        let sums = self.credit(number, &weights);
        self.finish(number)?;
        Ok(Played {
            selected,
            reported: self.cohort.len() as u64,
            forced,
            total_weight: sums.weight,
        })
    }

    fn begin(&mut self, now: &RoundWorld, number: u64) {
        let joined = self.joined(number);
        if !self.present.is_empty() {
            for client in 0..joined {
                let here = &mut self.present[client as usize];
                *here &= !now.leaves(client);
            }
        }
        for (client, online) in (0..joined).zip(&mut self.online) {
            *online = now.switched(client, *online);
        }
    }

    fn joined(&self, number: u64) -> u32 {
        self.world.joined(self.first_clients, number).min(self.setting.clients())
    }

    /// Who can be asked; `None` for everyone.
    fn mask(&self, now: &RoundWorld) -> Option<Vec<bool>> {
        if self.present.is_empty() && now.everyone_is_online() {
            return None;
        }
        let is_online = |client: u32| {
            let remembered = self.online.get(client as usize).copied().unwrap_or(false);
            now.is_online(client, remembered)
        };
        let here = |client: u32| self.present.get(client as usize).copied().unwrap_or(true);
        Some((0..self.setting.clients()).map(|c| here(c) && is_online(c)).collect())
    }

    fn weigh(&self, round: &Round<'_>, picks: &[Pick]) -> Vec<f64> {
        let inclusion = match self.weighting {
            Weighting::Unbiased => self.policy.inclusion(round, &self.cohort),
            _ => vec![1.0; picks.len()],
        };
        let sizes = self.setting.sizes();
        let weighed = |(pick, inclusion): (&Pick, f64)| Weighed {
            draws: pick.draws,
            size: sizes.of(pick.client),
            share: sizes.share(pick.client),
            inclusion,
        };
        let members: Vec<Weighed> = picks.iter().zip(inclusion).map(weighed).collect();
        self.weighting.weights(&members)
    }

    fn credit(&mut self, number: u64, weights: &[f64]) -> CreditSums {
        let mut sums = CreditSums::default();
        let Some(recorded) = number.checked_sub(self.warmup) else {
            return sums;
        };
        for (&client, &weight) in self.cohort.iter().zip(weights) {
            let age = self.ages.of(client);
            self.intervals.record(age);
            let last = recorded as i64 - age as i64 - 1;
            let one = std::iter::once((client as usize, weight));
            sums.merge(&credit(&mut self.tallies, one, Fresh::new(last, recorded)));
        }
        self.weights.record_many(sums.squares, sums.growth);
        sums.record(&mut self.windows);
        for window in &mut self.windows {
            window.end_round(recorded);
        }
        sums
    }

    /// Ends the round. Who joins before the next begins it with age 0, as if just credited.
    fn finish(&mut self, number: u64) -> Result<()> {
        let mut credited = self.cohort.clone();
        if !self.present.is_empty() {
            let newcomers = self.joined(number)..self.joined(number + 1);
            newcomers.clone().for_each(|client| self.present[client as usize] = true);
            credited.extend(newcomers);
        }
        self.ages.advance(&credited)
    }

    /// How many clients wait, by the round since which they do.
    pub(crate) fn waiting(&self) -> BTreeMap<i64, u64> {
        let mut waiting = BTreeMap::new();
        for (client, age) in self.ages.iter().enumerate() {
            if self.present.get(client).copied().unwrap_or(true) {
                *waiting.entry(self.ages.round() as i64 - age as i64).or_default() += 1;
            }
        }
        waiting
    }

    /// The clients credited in the last round.
    pub(crate) fn cohort(&self) -> &[u32] {
        &self.cohort
    }

    /// All intervals.
    pub(crate) fn intervals(&self) -> Intervals {
        self.intervals.clone()
    }

    /// How often each client was credited.
    pub(crate) fn selections(&self) -> impl Iterator<Item = u32> {
        self.tallies.iter().map(|tally| tally.selections)
    }

    /// Moments of the weights.
    pub(crate) fn weights(&self) -> &WeightMoments {
        &self.weights
    }

    /// The windows of all lengths.
    pub(crate) fn windows(&self) -> &[WindowTally] {
        &self.windows
    }
}
