//! A population in shards: what the engines have in common that do not look at every client.

use super::round::{UncountedRound, Weighing};
use super::shard::SHARD;
use super::shard::clients::ShardClients;
use crate::world::World;
use agewise_core::Setting;
use rayon::prelude::*;

/// Some neighbouring clients, however their ages are kept.
pub(crate) trait ClientShard: Send {
    /// The clients `first..first + ages.len()`, with their ages at the beginning of round 0. Counters follow.
    fn new(first: u32, ages: &[u64]) -> Self;

    /// Its clients.
    fn clients(&self) -> &ShardClients;

    /// Its clients, to start their counters or their memory.
    fn clients_mut(&mut self) -> &mut ShardClients;

    /// Brings in clients up to `total` in this shard; they join with age 0.
    fn join(&mut self, total: u32, round: u64, world: &World);
}

/// All shards of a population, and what a run is like.
#[derive(Debug)]
pub(crate) struct Shards<S> {
    pub(super) each: Vec<S>,
    /// With the sizes of all clients that will ever join.
    pub(super) setting: Setting,
    pub(super) world: World,
    pub(super) weighing: Weighing,
    warmup: u64,
    /// The number of clients at the beginning of the run.
    first_clients: u32,
    pub(super) pending: Vec<UncountedRound>,
}

impl<S: ClientShard> Shards<S> {
    /// A population with these first ages.
    pub(crate) fn new(
        setting: Setting,
        world: World,
        weighing: Weighing,
        warmup: u64,
        initial_ages: Vec<u64>,
    ) -> Self {
        let first_clients = initial_ages.len() as u32;
        let shards = initial_ages.par_chunks(SHARD as usize).enumerate();
        let mut each: Vec<S> =
            shards.map(|(index, ages)| S::new(index as u32 * SHARD, ages)).collect();
        // Counters take as much memory as the first ages, which are not needed any more.
        drop(initial_ages);
        each.par_iter_mut().for_each(|shard| {
            shard.clients_mut().start_counters();
            shard.clients_mut().start_memory(&world);
        });
        Self { each, setting, world, weighing, warmup, first_clients, pending: Vec::new() }
    }

    /// Whether there is enough to share out.
    pub(crate) fn is_large(&self) -> bool {
        self.each.len() > 1
    }

    /// How many clients have ever been there.
    pub(super) fn joined(&self) -> u32 {
        self.each.last().map_or(0, |shard| shard.clients().numbers().end)
    }

    /// Clients that joined since the last round come in; whole new shards where the last one is full.
    pub(super) fn join(&mut self, round: u64) -> u64 {
        let total = self.world.joined(self.first_clients, round).min(self.setting.clients());
        let have = self.joined();
        if total <= have {
            return 0;
        }
        let world = self.world;
        while (self.each.len() as u32) * SHARD < total {
            let mut shard = S::new(self.each.len() as u32 * SHARD, &[]);
            shard.clients_mut().start_memory(&world);
            self.each.push(shard);
        }
        for (index, shard) in (0..).zip(&mut self.each) {
            shard.join(total.saturating_sub(index * SHARD).min(SHARD), round, &world);
        }
        u64::from(total - have)
    }

    /// Lets all shards work, in parallel where there are several; results are in their order.
    pub(super) fn map<T: Send>(&mut self, work: impl Fn(&mut S) -> T + Sync + Send) -> Vec<T> {
        if self.is_large() {
            self.each.par_iter_mut().map(work).collect()
        } else {
            self.each.iter_mut().map(work).collect()
        }
    }

    /// The shard of a client.
    pub(super) fn of(&mut self, client: u32) -> &mut S {
        &mut self.each[(client / SHARD) as usize]
    }

    /// A round of so many reports was chosen, `total_size` being the sum of the clients' sizes; its metrics are counted
    /// later.
    pub(super) fn postpone(&mut self, round: u64, reported: u64, total_size: f64) {
        let recorded = round.checked_sub(self.warmup);
        let weigher = self.weighing.of_cohort(reported, total_size);
        self.pending.push(UncountedRound { round, recorded, weigher });
    }

    /// How often each client was credited.
    pub(crate) fn selections(&self) -> impl Iterator<Item = u32> {
        let counters = self.each.iter().flat_map(|shard| &shard.clients().counters);
        counters.map(|counter| counter.selections)
    }
}
