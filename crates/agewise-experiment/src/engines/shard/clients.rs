//! What every shard has, however it keeps the ages of its clients.

use crate::engines::counters::Counters;
use crate::world::{RoundWorld, World};
use agewise_core::{Failures, Sizes};
use std::collections::BTreeSet;
use std::ops::Range;

/// The clients of a shard: their numbers, their counters and which of them are online.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShardClients {
    first: u32,
    count: u32,
    pub(crate) counters: Vec<Counters>,
    /// One bit per client: online, for worlds with a memory. Empty otherwise.
    online: Vec<u64>,
    /// The failures of each client; as long as the highest number of those that have failed.
    failures: Vec<Failures>,
    /// Whether clients at the last step of back-off take turns: then they are asked only if they are released.
    takes_turns: bool,
    /// Clients that are held back because they failed, and may be asked in this round all the same.
    released: BTreeSet<u16>,
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

    /// The sum of the sizes of some members.
    pub(crate) fn total_size(&self, members: &[u16], sizes: &Sizes) -> f64 {
        members.iter().map(|&member| sizes.of(self.number(member))).sum()
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

    /// Clients at the last step of back-off take turns from now on, because the coordinator selects.
    pub(crate) fn take_turns(&mut self) {
        self.takes_turns = true;
    }

    /// Begins a round: all clients that failed are held back again.
    pub(crate) fn begin(&mut self) {
        self.released.clear();
    }

    /// Lets a client be asked in this round although it is held back.
    pub(crate) fn release(&mut self, client: u32) {
        self.released.insert(self.member(client));
    }

    /// The failures of a member since it was last credited.
    fn failures(&self, member: u16) -> Failures {
        self.failures.get(usize::from(member)).copied().unwrap_or(Failures::NONE)
    }

    /// Clients of this shard were credited or failed in a round: `interval` is the target interval of each.
    pub(crate) fn note_outcomes(
        &mut self,
        round: u64,
        credited: &[u16],
        failed: impl Iterator<Item = u16>,
        interval: impl Fn(u32) -> f64,
    ) {
        for &member in credited {
            if let Some(failures) = self.failures.get_mut(usize::from(member)) {
                *failures = Failures::NONE;
            }
        }
        for member in failed {
            let place = usize::from(member);
            if self.failures.len() <= place {
                self.failures.resize(place + 1, Failures::NONE);
            }
            let interval = interval(self.number(member));
            self.failures[place] = self.failures[place].and_one_more(round, interval);
        }
    }

    /// Whether a member has to wait because it failed, or takes turns.
    fn is_held_back(&self, failures: Failures, round: u64) -> bool {
        !failures.is_eligible(round) || self.takes_turns && failures.is_at_the_last_step()
    }

    /// Whether a member can be reached and is not held back because it failed.
    #[inline]
    pub(crate) fn can_be_asked(&self, world: &RoundWorld, member: u16) -> bool {
        let may = || {
            !self.is_held_back(self.failures(member), world.round())
                || self.released.contains(&member)
        };
        self.is_online(world, member) && (self.failures.is_empty() || may())
    }

    /// Whether no member is held back because it failed, for all that is known without looking at them.
    pub(crate) fn none_waits(&self) -> bool {
        self.failures.is_empty()
    }

    /// The failures of a member, if it is held back because of them.
    pub(crate) fn held_back(&self, world: &RoundWorld, member: u16) -> Option<Failures> {
        let failures = self.failures(member);
        self.is_held_back(failures, world.round()).then_some(failures)
    }

    /// Whether a member can be reached.
    pub(crate) fn is_online(&self, world: &RoundWorld, member: u16) -> bool {
        let remembered = !self.online.is_empty() && bit(&self.online, member);
        world.is_online(self.number(member), remembered)
    }
}
