//! The engine for choices by lot alone: ages play no part, so clients stay in order of number, each with the
//! round since which it waits (4 bytes). A round is one pass over all ranks.

use crate::played::{AgeCounts, Chosen, Settled, Unsettled, Weigher, merge};
use crate::shard::SHARD;
use crate::shard::bounds::{Bounds, Found, missing, sort_out};
use crate::shard::journal::{Journal, credit_members};
use crate::shard::residents::{Residents, bit, set_bit};
use crate::tally::{FreshByAge, fetch};
use crate::world::{RoundWorld, World};
use agewise_core::{Ranks, Setting, Sizes, Weighting};
use rayon::prelude::*;

/// A population in order of number.
#[derive(Debug)]
pub(super) struct Numbered {
    setting: Setting,
    by_size: bool,
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
        weighting: Weighting,
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
        Self {
            first_clients,
            by_size: weighting == Weighting::DataSize && !setting.sizes().are_equal(),
            setting,
            world,
            warmup,
            shards,
            unsettled: Vec::new(),
        }
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
        let by_size = self.by_size.then(|| self.setting.sizes());
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
            weigher: Weigher::new(chosen.reported, by_size.map(|_| total_size)),
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

    fn choose(&mut self, world: &RoundWorld, ranks: &Ranks, round: u64, bounds: Bounds) -> Found {
        let mut found = Found::default();
        let (residents, eligible) = (&self.residents, &self.eligible);
        self.journal.take(round, Self::ANY_AGE, |taken| {
            if eligible.is_empty() && world.nobody_drops_out() {
                take_low_ranks(residents, ranks, bounds, taken, &mut found, |_| true, |_| true);
            } else {
                let can = |member| eligible.is_empty() || bit(eligible, member);
                let reports = |member| !world.drops_out(residents.number(member));
                take_low_ranks(residents, ranks, bounds, taken, &mut found, can, reports);
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
                    let sums = credit_members(
                        members,
                        fresh,
                        unsettled.weigher,
                        sizes,
                        &mut self.residents,
                    );
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

/// Takes everyone who can be chosen with a rank that is surely low enough, and finds those near it.
fn take_low_ranks(
    residents: &Residents,
    ranks: &Ranks,
    bounds: Bounds,
    taken: &mut Vec<u16>,
    found: &mut Found,
    can: impl Fn(u16) -> bool,
    reports: impl Fn(u16) -> bool,
) {
    const WORD: u32 = 64;
    let clients = residents.numbers();
    let (sure, possible) = (bounds.sure >> 56, bounds.possible >> 56);
    let mut members = [0; WORD as usize];
    for begin in clients.clone().step_by(WORD as usize) {
        // Two loops, so that the one over everyone has no branch that could be mispredicted. Shards begin
        // at multiples of 64, so octets of clients do too.
        let (mut low, mut near) = (0u64, 0u64);
        for octet in 0..u64::from(WORD / 8) {
            let coarse = ranks.coarse(u64::from(begin) / 8 + octet);
            low |= lanes_below(coarse, sure) << (8 * octet);
            near |= lanes_below(coarse, possible + 1) << (8 * octet);
        }
        let present = u64::MAX >> (WORD - (clients.end - begin).min(WORD));
        (low, near) = (low & present, near & present & !low);
        while near != 0 {
            let client = begin + near.trailing_zeros();
            let bit = near & near.wrapping_neg();
            near ^= bit;
            // The coarse bits do not tell: now the fine ones count.
            let rank = ranks.of(u64::from(client));
            if rank < bounds.sure {
                low |= bit;
            } else if rank <= bounds.possible && can(residents.member(client)) {
                found.near.push((rank, client));
            }
        }
        // Gathered first: one look at the capacity of the list for all of them.
        let mut kept = 0;
        while low != 0 {
            let member = residents.member(begin + low.trailing_zeros());
            low &= low - 1;
            if can(member) {
                found.selected += 1;
                members[kept % WORD as usize] = member;
                kept += usize::from(reports(member));
            }
        }
        taken.extend_from_slice(&members[..kept]);
    }
}

/// One bit for each of the eight bytes of a word: whether it is below `limit`, which is at most 256.
fn lanes_below(word: u64, limit: u64) -> u64 {
    /// The highest bit of each byte, and the lowest.
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const ONES: u64 = 0x0101_0101_0101_0101;
    /// Brings the lowest bits of the bytes side by side to bit 56.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    if limit == 0 {
        return 0;
    }
    let limits = (limit - 1) * ONES;
    // limit - byte without a borrow from byte to byte: the 7 low bits are subtracted under a high bit that
    // is always there, and the high bits are compared by themselves.
    let low_bits = (limits | HIGH) - (word & !HIGH);
    let fits = (limits & !word) | (!(limits ^ word) & low_bits);
    ((fits & HIGH) >> 7).wrapping_mul(GATHER) >> 56
}

#[cfg(test)]
mod tests {
    use super::lanes_below;

    #[test]
    fn bytes_are_compared_each_by_itself() {
        for limit in 0..=256u64 {
            for first in 0..=255u64 {
                let bytes: [u8; 8] = std::array::from_fn(|lane| {
                    (first as u8).wrapping_add(37u8.wrapping_mul(lane as u8))
                });
                let expected =
                    (0..).zip(bytes).map(|(lane, byte)| u64::from(u64::from(byte) < limit) << lane);
                assert_eq!(lanes_below(u64::from_le_bytes(bytes), limit), expected.sum::<u64>());
            }
        }
    }
}
