//! The engine for any policy: it is asked for its cohort in every round, and sees all clients.

use crate::played::{AgeCounts, Chosen, Settled, merge};
use crate::shard::SHARD;
use crate::tally::{FreshByAge, Tally, credit, fetch};
use crate::world::{RoundWorld, World};
use agewise_core::{Ages, Availability, Policy, Reports, Result, Round, Setting, Weighting};
use rayon::prelude::*;

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
    cohort: Vec<u32>,
    settled: Vec<Settled>,
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
            cohort: Vec::new(),
            settled: Vec::new(),
            policy,
            setting,
            world,
            weighting,
            warmup,
            first_clients,
        }
    }

    /// Whether there is enough to share out.
    pub(crate) fn is_large(&self) -> bool {
        self.tallies.len() > SHARD as usize
    }

    /// Chooses the clients of a round, and credits them at once.
    pub(crate) fn choose(&mut self, number: u64) -> Result<Chosen> {
        let now = self.world.at(number);
        let left = self.begin(&now, number);
        let mask = self.mask(&now);
        let availability = match &mask {
            None => Availability::Everyone,
            Some(mask) => Availability::Only(mask),
        };
        let reports = Reports::default();
        let round = Round::new(&self.setting, self.world.seed, &self.ages, availability, &reports)?;
        let (mut picks, forced) = round.choose(&mut *self.policy);
        let selected = picks.len() as u64;
        if !now.nobody_drops_out() {
            picks.retain(|pick| !now.drops_out(pick.client));
        }
        self.cohort.clear();
        self.cohort.extend(picks.iter().map(|pick| pick.client));
        let weights = round.weigh(&*self.policy, self.weighting, &picks);
        let settled = self.credit(number, &weights);
        self.settled.push(settled);
        self.finish(number)?;
        Ok(Chosen {
            selected,
            reported: self.cohort.len() as u64,
            forced,
            joined: u64::from(self.joined(number) - self.joined(number.saturating_sub(1))),
            left,
        })
    }

    /// What the rounds chosen since the last time came to.
    pub(crate) fn settle(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    fn begin(&mut self, now: &RoundWorld, number: u64) -> AgeCounts {
        let joined = self.joined(number);
        let mut left = AgeCounts::default();
        if now.somebody_may_leave() {
            for (client, here) in (0..joined).zip(&mut self.present) {
                if *here && now.leaves(client) {
                    *here = false;
                    left.add(self.ages.of(client), 1);
                }
            }
        }
        for (client, online) in (0..joined).zip(&mut self.online) {
            *online = now.switched(client, *online);
        }
        left
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

    /// Credits the cohort: neighbours by neighbours, in parallel.
    fn credit(&mut self, number: u64, weights: &[f64]) -> Settled {
        let fresh = number.checked_sub(self.warmup).map(FreshByAge::new);
        let (cohort, ages) = (&self.cohort, &self.ages);
        let credit_part = |(part, tallies): (usize, &mut [Tally])| {
            let first = part as u32 * SHARD;
            let begin = cohort.partition_point(|&client| client < first);
            let end = cohort.partition_point(|&client| client < first + tallies.len() as u32);
            let (cohort, weights) = (&cohort[begin..end], &weights[begin..end]);
            let mut settled = Settled::default();
            for &client in cohort {
                settled.ages.add(ages.of(client), 1);
            }
            if let Some(fresh) = &fresh {
                let members: Vec<u16> =
                    cohort.iter().map(|&client| (client - first) as u16).collect();
                let mut weights = weights.iter();
                fetch(tallies);
                settled.sums = credit(
                    tallies,
                    &members,
                    |member| fresh.of(ages.of(first + u32::from(member))),
                    |_| weights.next().copied().unwrap_or(0.0),
                );
            }
            vec![settled]
        };
        let parts = if self.tallies.len() > SHARD as usize {
            self.tallies.par_chunks_mut(SHARD as usize).enumerate().map(credit_part).collect()
        } else {
            self.tallies.chunks_mut(SHARD as usize).enumerate().map(credit_part).collect()
        };
        merge(1, parts).pop().unwrap_or_default()
    }

    /// Ends the round. Who joins before the next begins it with age 0, as if just credited.
    fn finish(&mut self, number: u64) -> Result<()> {
        let newcomers = self.joined(number)..self.joined(number + 1);
        if newcomers.is_empty() {
            return self.ages.advance(&self.cohort);
        }
        newcomers.clone().for_each(|client| self.present[client as usize] = true);
        let credited: Vec<u32> = self.cohort.iter().copied().chain(newcomers).collect();
        self.ages.advance(&credited)
    }

    /// The clients credited in the last round.
    pub(crate) fn cohort(&self) -> &[u32] {
        &self.cohort
    }

    /// How often each client was credited.
    pub(crate) fn selections(&self) -> impl Iterator<Item = u32> {
        self.tallies.iter().map(|tally| tally.selections)
    }
}
