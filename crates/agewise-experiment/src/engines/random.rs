//! The engine for choices by draw alone: ages play no part, so clients stay in order of number, each with the
//! round since which it waits (4 bytes). A round is one pass over all ranks.

use super::counters::{FreshByAge, fetch};
use super::round::{AgeCounts, RoundMetrics, RoundSelection, UncountedRound, merge};
use super::shard::clients::{ShardClients, bit, set_bit};
use super::shard::lowest_draws::{Bounds, ShardSelection, missing, sort_out};
use super::shard::selection_log::{SelectionLog, credit_members};
use super::shards::{ClientShard, Shards};
use crate::world::{RoundWorld, World};
use agewise_core::{Ranks, Sizes};

/// A population in order of number.
pub(crate) type Random = Shards<RandomShard>;

/// The clients of one shard.
#[derive(Debug)]
pub(crate) struct RandomShard {
    clients: ShardClients,
    /// The round at which each had age 0, wrapped around below 0.
    since: Vec<u32>,
    /// One bit per client: has not left. Empty where no client may leave.
    here: Vec<u64>,
    /// One bit per client: can be chosen in this round. Empty while everyone can.
    eligible: Vec<u64>,
    log: SelectionLog,
}

impl Random {
    /// Chooses the clients of a round. The metrics follow in [`Self::take_metrics`].
    pub(crate) fn choose(&mut self, round: u64) -> RoundSelection {
        let now = self.world.at(round);
        let mut chosen = RoundSelection { joined: self.join(round), ..RoundSelection::default() };
        let mut eligible = 0;
        for (here, left) in self.map(|shard| shard.begin(&now, round)) {
            eligible += here;
            chosen.left.merge(&left);
        }
        let ranks = Ranks::new(self.world.seed, round);
        chosen.available = Some(eligible);
        chosen.selected = u64::from(self.setting.cohort()).min(eligible);
        let bounds = Bounds::guess(chosen.selected, eligible);
        let mut found = self.map(|shard| shard.choose(&now, &ranks, round, bounds));
        let wanted = missing(chosen.selected, &found).unwrap_or_else(|| {
            // Far from what could be expected: look at everyone.
            found = self.map(|shard| {
                shard.log.undo(round, RandomShard::ANY_AGE);
                shard.choose(&now, &ranks, round, Bounds::NONE)
            });
            chosen.selected
        });
        for (client, selected) in sort_out(found, wanted) {
            if selected && !now.drops_out(client) {
                self.of(client).take(client, round);
            }
        }
        let by_size = self.weighing.by_size.then(|| self.setting.sizes());
        let mut total_size = 0.0;
        for shard in &self.each {
            let taken = shard.log.present();
            chosen.reported += taken.len() as u64;
            if let Some(sizes) = by_size {
                total_size += shard.clients.total_size(taken, sizes);
            }
        }
        self.postpone(round, chosen.reported, total_size);
        chosen
    }

    /// Credits the clients of all rounds chosen since the last time.
    pub(crate) fn take_metrics(&mut self) -> Vec<RoundMetrics> {
        let fresh = |pending: UncountedRound| (pending, pending.recorded.map(FreshByAge::new));
        let pending: Vec<_> = self.pending.drain(..).map(fresh).collect();
        let sizes = self.setting.sizes().clone();
        merge(pending.len(), self.map(|shard| shard.take_metrics(&pending, &sizes)))
    }

    /// The clients that wait since a round: those that were credited in the one before.
    pub(crate) fn members_since(&self, round: u64) -> Vec<u32> {
        let members = self.each.iter().flat_map(|shard| {
            let members = shard.clients.numbers().zip(&shard.since);
            members.filter(|(_, since)| age_at(round, **since) == 0)
        });
        members.map(|(client, _)| client).collect()
    }
}

impl ClientShard for RandomShard {
    fn new(first: u32, ages: &[u64]) -> Self {
        Self {
            clients: ShardClients::new(first, ages.len() as u32),
            since: ages.iter().map(|&age| 0u32.wrapping_sub(age as u32)).collect(),
            here: Vec::new(),
            eligible: Vec::new(),
            log: SelectionLog::default(),
        }
    }

    fn clients(&self) -> &ShardClients {
        &self.clients
    }

    fn clients_mut(&mut self) -> &mut ShardClients {
        &mut self.clients
    }

    fn join(&mut self, total: u32, round: u64, world: &World) {
        for member in self.clients.join(total, world) {
            self.since.push(round as u32);
            if !self.here.is_empty() {
                self.here.resize((self.since.len()).div_ceil(64), 0);
                set_bit(&mut self.here, member as u16, true);
            }
        }
    }
}

impl RandomShard {
    /// Ages are looked up when the metrics of a round are counted.
    const ANY_AGE: u64 = 0;

    fn members(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.clients.count()).map(|member| member as u16)
    }

    /// Begins a round: some leave, some go offline or come back. Returns how many can be chosen, and the
    /// ages of those that left.
    fn begin(&mut self, world: &RoundWorld, round: u64) -> (u64, AgeCounts) {
        self.log.begin();
        self.clients.switch(world);
        let mut left = AgeCounts::default();
        if world.clients_may_leave() {
            if self.here.is_empty() {
                self.here = vec![0; self.since.len().div_ceil(64)];
                self.members().for_each(|member| set_bit(&mut self.here, member, true));
            }
            for member in self.members() {
                if bit(&self.here, member) && world.leaves(self.clients.number(member)) {
                    set_bit(&mut self.here, member, false);
                    left.add(age_at(round, self.since[usize::from(member)]), 1);
                }
            }
        }
        if self.here.is_empty() && world.everyone_is_online() {
            return (u64::from(self.clients.count()), left);
        }
        self.eligible.clear();
        self.eligible.resize(self.since.len().div_ceil(64), 0);
        let mut eligible = 0;
        for member in self.members() {
            let here = self.here.is_empty() || bit(&self.here, member);
            let can = here && self.clients.is_online(world, member);
            set_bit(&mut self.eligible, member, can);
            eligible += u64::from(can);
        }
        (eligible, left)
    }

    /// Takes all clients that can be chosen with a rank that is surely low enough, and finds those near it.
    fn choose(
        &mut self,
        world: &RoundWorld,
        ranks: &Ranks,
        round: u64,
        bounds: Bounds,
    ) -> ShardSelection {
        const BLOCK: u32 = Ranks::BLOCK as u32;
        let mut found = ShardSelection::default();
        let (shard, eligible) = (&self.clients, &self.eligible);
        let clients = shard.numbers();
        let (sure, possible) = ((bounds.sure >> 56) as u8, (bounds.possible >> 56) as u8);
        self.log.take(round, Self::ANY_AGE, |taken| {
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
                if !world.all_report() {
                    let reports = |lane: &u32| !world.drops_out(begin + lane);
                    let lanes = (0..BLOCK).filter(|lane| low >> lane & 1 == 1).filter(reports);
                    low = lanes.fold(0, |reporting, lane| reporting | 1 << lane);
                    reported = low.count_ones();
                }
                list_bits(low, reported, shard.member(begin), taken);
            }
        });
        found
    }

    fn take(&mut self, client: u32, round: u64) {
        let member = self.clients.member(client);
        self.log.take(round, Self::ANY_AGE, |taken| taken.push(member));
    }

    fn take_metrics(
        &mut self,
        rounds: &[(UncountedRound, Option<FreshByAge>)],
        sizes: &Sizes,
    ) -> Vec<RoundMetrics> {
        fetch(&self.clients.counters);
        let (clients, since) = (&mut self.clients, &mut self.since);
        let number = |(pending, _): &(UncountedRound, _)| pending.round;
        self.log.take_metrics(rounds, number, |(pending, fresh), _, members, metrics| {
            let round = pending.round;
            let mut age = |member: u16| {
                let since = &mut since[usize::from(member)];
                let age = age_at(round, *since);
                *since = (round as u32).wrapping_add(1);
                metrics.ages.add(age, 1);
                age
            };
            if let Some(fresh) = fresh {
                let fresh = |member| fresh.of(age(member));
                let sums = credit_members(members, fresh, pending.weigher, sizes, clients);
                metrics.sums.merge(&sums);
            } else {
                for &member in members {
                    age(member);
                }
            }
        })
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
