//! The engine for choices by lot alone: ages play no part, so clients stay in order of number, each with the
//! round since which it waits (4 bytes). A round is one pass over all ranks.

use crate::played::{AgeCounts, Chosen, Settled, Unsettled, Weighing, merge};
use crate::shard::SHARD;
use crate::shard::bounds::{Bounds, Found, missing, sort_out};
use crate::shard::journal::{Journal, credit_members};
use crate::shard::residents::{Residents, bit, set_bit};
use crate::tally::{FreshByAge, fetch};
use crate::world::{RoundWorld, World};
use agewise_core::{Ranks, Setting, Sizes};
use rayon::prelude::*;

/// A population in order of number.
#[derive(Debug)]
pub(super) struct Numbered {
    setting: Setting,
    weighing: Weighing,
    world: World,
    warmup: u64,
    /// The number of clients at the beginning of the run.
    first_clients: u32,
    shards: Vec<Part>,
    unsettled: Vec<Unsettled>,
}

/// The clients of one shard.
#[derive(Debug)]
struct Part {
    residents: Residents,
    /// The round at which each had age 0, wrapped around below 0.
    since: Vec<u32>,
    /// One bit per client: has not left. Empty while nobody may leave.
    here: Vec<u64>,
    /// One bit per client: can be chosen in this round. Empty while everyone can.
    eligible: Vec<u64>,
    journal: Journal,
}

impl Numbered {
    /// A population with these first ages. `setting` has the sizes of all clients that will ever join.
    pub(super) fn new(
        setting: Setting,
        world: World,
        weighing: Weighing,
        warmup: u64,
        first_ages: Vec<u64>,
    ) -> Self {
        let first_clients = first_ages.len() as u32;
        let mut shards: Vec<Part> = first_ages
            .par_chunks(SHARD as usize)
            .enumerate()
            .map(|(index, ages)| Part::new(index as u32 * SHARD, ages, &world))
            .collect();
        drop(first_ages);
        shards.par_iter_mut().for_each(|shard| shard.residents.start_tallies());
        Self { first_clients, weighing, setting, world, warmup, shards, unsettled: Vec::new() }
    }

    /// Whether there is enough to share out.
    pub(super) fn is_large(&self) -> bool {
        self.shards.len() > 1
    }

    /// Chooses the clients of a round. The metrics follow in [`Self::settle`].
    pub(super) fn choose(&mut self, round: u64) -> Chosen {
        let now = self.world.at(round);
        let mut chosen = Chosen { joined: self.join(round), ..Chosen::default() };
        let mut eligible = 0;
        for (here, left) in self.each_shard(|shard| shard.begin(&now, round)) {
            eligible += here;
            chosen.left.merge(&left);
        }
        let ranks = Ranks::new(self.world.seed, round);
        chosen.selected = u64::from(self.setting.cohort()).min(eligible);
        let bounds = Bounds::guess(chosen.selected, eligible);
        let mut found = self.each_shard(|shard| shard.choose(&now, &ranks, round, bounds));
        let wanted = missing(chosen.selected, &found).unwrap_or_else(|| {
            // Far from what could be expected: look at everyone.
            found = self.each_shard(|shard| {
                shard.journal.undo(round, Part::ANY_AGE);
                shard.choose(&now, &ranks, round, Bounds::NONE)
            });
            chosen.selected
        });
        for (client, selected) in sort_out(found, wanted) {
            if selected && !now.drops_out(client) {
                self.shards[(client / SHARD) as usize].take(client, round);
            }
        }
        let by_size = self.weighing.by_size.then(|| self.setting.sizes());
        let mut total_size = 0.0;
        for shard in &self.shards {
            let taken = shard.journal.present();
            chosen.reported += taken.len() as u64;
            if let Some(sizes) = by_size {
                let each = taken.iter().map(|&member| sizes.of(shard.residents.number(member)));
                total_size += each.sum::<f64>();
            }
        }
        self.unsettled.push(Unsettled {
            round,
            recorded: round.checked_sub(self.warmup),
            weigher: self.weighing.of_cohort(chosen.reported, total_size),
        });
        chosen
    }

    /// Credits the clients of all rounds chosen since the last time.
    pub(super) fn settle(&mut self) -> Vec<Settled> {
        let fresh = |unsettled: Unsettled| (unsettled, unsettled.recorded.map(FreshByAge::new));
        let unsettled: Vec<_> = self.unsettled.drain(..).map(fresh).collect();
        let sizes = self.setting.sizes().clone();
        merge(unsettled.len(), self.each_shard(|shard| shard.settle(&unsettled, &sizes)))
    }

    /// Clients that joined since the last round come in; whole new shards where the last one is full.
    fn join(&mut self, round: u64) -> u64 {
        let total = self.world.joined(self.first_clients, round).min(self.setting.clients());
        let have = self.shards.last().map_or(0, |shard| shard.residents.numbers().end);
        if total <= have {
            return 0;
        }
        let world = self.world;
        while (self.shards.len() as u32) * SHARD < total {
            self.shards.push(Part::new(self.shards.len() as u32 * SHARD, &[], &world));
        }
        for (index, shard) in (0..).zip(&mut self.shards) {
            shard.join(total.saturating_sub(index * SHARD).min(SHARD), round, &world);
        }
        u64::from(total - have)
    }

    /// Lets all shards work, in parallel where there are several; results are in their order.
    fn each_shard<T: Send>(&mut self, work: impl Fn(&mut Part) -> T + Sync + Send) -> Vec<T> {
        if self.is_large() {
            self.shards.par_iter_mut().map(work).collect()
        } else {
            self.shards.iter_mut().map(work).collect()
        }
    }

    /// The clients that wait since a round: those that were credited in the one before.
    pub(super) fn members_since(&self, round: u64) -> Vec<u32> {
        let members = self.shards.iter().flat_map(|shard| {
            let members = shard.residents.numbers().zip(&shard.since);
            members.filter(|(_, since)| age_at(round, **since) == 0)
        });
        members.map(|(client, _)| client).collect()
    }

    /// How often each client was credited.
    pub(super) fn selections(&self) -> impl Iterator<Item = u32> {
        let tallies = self.shards.iter().flat_map(|shard| &shard.residents.tallies);
        tallies.map(|tally| tally.selections)
    }
}

impl Part {
    /// Ages are looked up when a round is settled.
    const ANY_AGE: u64 = 0;

    fn new(first: u32, ages: &[u64], world: &World) -> Self {
        let mut part = Self {
            residents: Residents::new(first, ages.len() as u32),
            since: ages.iter().map(|&age| 0u32.wrapping_sub(age as u32)).collect(),
            here: Vec::new(),
            eligible: Vec::new(),
            journal: Journal::default(),
        };
        if world.at(0).has_memory() {
            part.residents.start_memory(|client| world.starts_online(client));
        }
        part
    }

    fn join(&mut self, total: u32, round: u64, world: &World) {
        for member in self.residents.join(total, |client| world.starts_online(client)) {
            self.since.push(round as u32);
            if !self.here.is_empty() {
                self.here.resize((self.since.len()).div_ceil(64), 0);
                set_bit(&mut self.here, member as u16, true);
            }
        }
    }

    fn members(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.residents.count()).map(|member| member as u16)
    }

    /// Begins a round: some leave, some go offline or come back. Returns how many can be chosen, and the
    /// ages of those that left.
    fn begin(&mut self, world: &RoundWorld, round: u64) -> (u64, AgeCounts) {
        self.journal.begin();
        self.residents.switch(world);
        let mut left = AgeCounts::default();
        if world.somebody_may_leave() {
            if self.here.is_empty() {
                self.here = vec![0; self.since.len().div_ceil(64)];
                self.members().for_each(|member| set_bit(&mut self.here, member, true));
            }
            for member in self.members() {
                if bit(&self.here, member) && world.leaves(self.residents.number(member)) {
                    set_bit(&mut self.here, member, false);
                    left.add(age_at(round, self.since[usize::from(member)]), 1);
                }
            }
        }
        if self.here.is_empty() && world.everyone_is_online() {
            return (u64::from(self.residents.count()), left);
        }
        self.eligible.clear();
        self.eligible.resize(self.since.len().div_ceil(64), 0);
        let mut eligible = 0;
        for member in self.members() {
            let here = self.here.is_empty() || bit(&self.here, member);
            let can = here && self.residents.is_online(world, member);
            set_bit(&mut self.eligible, member, can);
            eligible += u64::from(can);
        }
        (eligible, left)
    }

    /// Takes everyone who can be chosen with a rank that is surely low enough, and finds those near it.
    fn choose(&mut self, world: &RoundWorld, ranks: &Ranks, round: u64, bounds: Bounds) -> Found {
        const BLOCK: u32 = Ranks::BLOCK as u32;
        let mut found = Found::default();
        let (residents, eligible) = (&self.residents, &self.eligible);
        let clients = residents.numbers();
        let (sure, possible) = ((bounds.sure >> 56) as u8, (bounds.possible >> 56) as u8);
        self.journal.take(round, Self::ANY_AGE, |taken| {
            // Shards begin at multiples of a block.
            for (block, begin) in clients.clone().step_by(BLOCK as usize).enumerate() {
                let present = u64::MAX >> (BLOCK - (clients.end - begin).min(BLOCK));
                let can = eligible.get(block).copied().unwrap_or(present);
                let coarse = ranks.coarse(u64::from(begin / BLOCK));
                let mut low = coarse.below(sure) & can;
                let mut near = coarse.at_most(possible) & can & !low;
                while near != 0 {
                    let client = begin + near.trailing_zeros();
                    let bit = near & near.wrapping_neg();
                    near ^= bit;
                    // The coarse bits do not tell: now the fine ones count.
                    let rank = ranks.in_block(&coarse, u64::from(client));
                    if rank < bounds.sure {
                        low |= bit;
                    } else if rank <= bounds.possible {
                        found.near.push((rank, client));
                    }
                }
                let mut reported = low.count_ones();
                found.selected += u64::from(reported);
                if !world.nobody_drops_out() {
                    let reports = |lane: &u32| !world.drops_out(begin + lane);
                    let lanes = (0..BLOCK).filter(|lane| low >> lane & 1 == 1).filter(reports);
                    low = lanes.fold(0, |reporting, lane| reporting | 1 << lane);
                    reported = low.count_ones();
                }
                list_bits(low, reported, residents.member(begin), taken);
            }
        });
        found
    }

    fn take(&mut self, client: u32, round: u64) {
        let member = self.residents.member(client);
        self.journal.take(round, Self::ANY_AGE, |taken| taken.push(member));
    }

    fn settle(
        &mut self,
        rounds: &[(Unsettled, Option<FreshByAge>)],
        sizes: &Sizes,
    ) -> Vec<Settled> {
        fetch(&self.residents.tallies);
        let mut takes = self.journal.takes().peekable();
        let settled = rounds.iter().map(|(unsettled, fresh)| {
            let round = unsettled.round;
            let mut settled = Settled::default();
            while let Some((_, _, members)) = takes.next_if(|(taken, ..)| *taken == round) {
                let mut age = |member: u16| {
                    let since = &mut self.since[usize::from(member)];
                    let age = age_at(round, *since);
                    *since = (round as u32).wrapping_add(1);
                    settled.ages.add(age, 1);
                    age
                };
                if let Some(fresh) = fresh {
                    let fresh = |member| fresh.of(age(member));
                    let (weigher, residents) = (unsettled.weigher, &mut self.residents);
                    let sums = credit_members(members, fresh, weigher, sizes, residents);
                    settled.sums.merge(&sums);
                } else {
                    for &member in members {
                        age(member);
                    }
                }
            }
            settled
        });
        let settled = settled.collect();
        drop(takes);
        self.journal.clear();
        settled
    }
}

fn age_at(round: u64, since: u32) -> u64 {
    u64::from((round as u32).wrapping_sub(since))
}

/// Adds `first` + i for every bit i of `bits` that is set, `count` in all.
fn list_bits(mut bits: u64, count: u32, first: u16, list: &mut Vec<u16>) {
    /// Listed at once, with something behind the end if there are fewer: a branch for each bit would be
    /// mispredicted once per word.
    const AT_ONCE: usize = 16;
    let end = list.len() + count as usize;
    while bits != 0 {
        let members: [u16; AT_ONCE] = std::array::from_fn(|_| {
            let member = first.wrapping_add(bits.trailing_zeros() as u16);
            bits &= bits.wrapping_sub(1);
            member
        });
        list.extend_from_slice(&members);
    }
    list.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::list_bits;

    #[test]
    fn every_bit_is_listed_once() {
        for bits in [0, 1, 1 << 63, 0xFFFF, 0x1_FFFF, u64::MAX, 0x8421_0000_1248_0001] {
            let mut list = vec![7];
            list_bits(bits, bits.count_ones(), 1_000, &mut list);
            let expected = (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| 1_000 + bit);
            assert_eq!(list, [7].into_iter().chain(expected).collect::<Vec<u16>>());
        }
    }
}
