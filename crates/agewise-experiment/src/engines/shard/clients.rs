//! What every shard has, however it keeps the ages of its clients.

use crate::engines::counters::Counters;
use crate::world::{RoundWorld, World};
use std::ops::Range;

/// The clients of a shard: their numbers, their counters and which of them are online.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShardClients {
    first: u32,
    count: u32,
    pub(crate) counters: Vec<Counters>,
    /// One bit per client: online, for worlds with a memory. Empty otherwise.
    online: Vec<u64>,
}

pub(crate) fn bit(bits: &[u64], index: u16) -> bool {
    bits[usize::from(index) / 64] >> (index % 64) & 1 == 1
}

pub(crate) fn set_bit(bits: &mut [u64], index: u16, value: bool) {
    let mask = 1 << (index % 64);
    let word = &mut bits[usize::from(index) / 64];
    *word = if value { *word | mask } else { *word & !mask };
}

impl ShardClients {
    /// The clients `first..first + count`, still without counters.
    pub(crate) fn new(first: u32, count: u32) -> Self {
        Self { first, count, ..Self::default() }
    }

    /// Makes the counters. Not at once with the rest: the first ages of all clients are in memory then.
    pub(crate) fn start_counters(&mut self) {
        self.counters = vec![Counters::default(); self.count as usize];
    }

    /// How many clients there have been.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.count
    }

    /// The number of a member of this shard.
    #[inline]
    pub(crate) fn number(&self, member: u16) -> u32 {
        self.first + u32::from(member)
    }

    /// The place of a client in this shard.
    pub(crate) fn member(&self, client: u32) -> u16 {
        (client - self.first) as u16
    }

    /// Brings in clients up to `total`; returns the new ones.
    pub(crate) fn join(&mut self, total: u32, world: &World) -> Range<u32> {
        let newcomers = self.count..total.max(self.count);
        self.count = newcomers.end;
        self.counters.resize(self.count as usize, Counters::default());
        if !self.online.is_empty() {
            self.remember_online(newcomers.clone(), world);
        }
        newcomers
    }

    /// Begins to remember which clients are online, in worlds with a memory.
    pub(crate) fn start_memory(&mut self, world: &World) {
        if world.at(0).has_memory() {
            self.remember_online(0..self.count, world);
        }
    }

    fn remember_online(&mut self, members: Range<u32>, world: &World) {
        self.online.resize((members.end as usize).div_ceil(64).max(1), 0);
        for member in members {
            let online = world.starts_online(self.first + member);
            set_bit(&mut self.online, member as u16, online);
        }
    }

    /// Some go offline or come back, in worlds with a memory.
    pub(crate) fn switch(&mut self, world: &RoundWorld) {
        if world.has_memory() {
            for member in 0..self.count {
                let before = bit(&self.online, member as u16);
                let after = world.switched(self.first + member, before);
                set_bit(&mut self.online, member as u16, after);
            }
        }
    }

    /// Whether a member can be reached.
    pub(crate) fn is_online(&self, world: &RoundWorld, member: u16) -> bool {
        let remembered = !self.online.is_empty() && bit(&self.online, member);
        world.is_online(self.number(member), remembered)
    }
}
