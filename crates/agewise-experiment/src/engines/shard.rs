//! A shard: up to 16,384 neighbouring clients, kept in groups of equal age.
//!
//! Shards are what threads share out. Each owns its clients completely, so a round is a few passes over all
//! shards in parallel with small sums in between, and the result does not depend on which thread did what. A group is a
//! list of 2-byte numbers: clients of an age that cannot be due are not touched at all, and a group that takes
//! part as a whole is copied as a whole.
//!
//! Choosing touches the lists alone. Credited clients are written into a log, and their counters are updated
//! for several rounds at once, while those of the shard are in the second-level cache.

pub(crate) mod clients;
pub(crate) mod lowest_draws;
mod picker;
pub(crate) mod selection_log;

use super::counters::{Fresh, fetch};
use super::round::{AgeCounts, RoundMetrics, UncountedRound};
use super::shards::ClientShard;
use crate::world::{RoundWorld, World};
use agewise_core::{Chance, Draws, Failures, Laws, RetryTurns, Sizes};
use clients::{ShardClients, bit, set_bit};
use lowest_draws::{Bounds, ShardSelection};
use picker::Picker;
use selection_log::{SelectionLog, credit_members};
use std::ops::Range;

/// Clients per shard: their counters fit into the second-level cache.
pub(crate) const SHARD: u32 = 16_384;

/// How many empty lists a shard keeps at most: one becomes the list of the next cohort.
const SPARE: usize = 1;

/// Clients that wait since the same round.
#[derive(Debug, Clone)]
struct Group {
    since: i64,
    members: Vec<u16>,
}

/// How the members of a group are chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice<'a> {
    /// None of them.
    None,
    /// All who are online.
    Everyone,
    /// Those online whose draw wins.
    Chance(Chance),
    /// Those online whose draw wins against their own law.
    OwnLaw(&'a Laws),
    /// Those online whose draw is low enough.
    LowDraws(Bounds),
    /// Those that were marked.
    Marked,
}

/// Clients of one shard.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    clients: ShardClients,
    /// The oldest first.
    groups: Vec<Group>,
    /// One bit per client: chosen, while a ranking by number is being worked out.
    marks: Vec<u64>,
    log: SelectionLog,
    /// The members that were selected in this round and did not report, each with the round since which it waits.
    failed: Vec<(i64, u16)>,
    /// Lists of groups that are empty now, for groups to come.
    spare: Vec<Vec<u16>>,
}

impl ClientShard for Shard {
    fn new(first: u32, ages: &[u64]) -> Self {
        let mut order: Vec<(i64, u16)> =
            (0..).zip(ages).map(|(index, &age)| (-(age as i64), index)).collect();
        order.sort_unstable();
        let groups = order.chunk_by(|a, b| a.0 == b.0).map(|chunk| Group {
            since: chunk[0].0,
            members: chunk.iter().map(|&(_, index)| index).collect(),
        });
        Self {
            clients: ShardClients::new(first, ages.len() as u32),
            groups: groups.collect(),
            marks: Vec::new(),
            log: SelectionLog::default(),
            failed: Vec::new(),
            spare: Vec::new(),
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
            self.put_back(member as u16, round as i64);
        }
    }
}

impl Shard {
    /// The clients that wait since a round.
    pub(crate) fn members_since(&self, since: i64) -> impl Iterator<Item = u32> {
        let groups = self.groups.iter().filter(move |group| group.since == since);
        groups.flat_map(|group| group.members.iter().map(|&m| self.clients.number(m)))
    }

    /// Begins a round: some leave for good, some go offline or come back. Returns the clients that left, by age.
    pub(crate) fn begin(&mut self, world: &RoundWorld, round: u64) -> AgeCounts {
        self.log.begin();
        self.failed.clear();
        self.clients.begin();
        let mut left = AgeCounts::default();
        if world.clients_may_leave() {
            for group in &mut self.groups {
                let before = group.members.len();
                group.members.retain(|&member| !world.leaves(self.clients.number(member)));
                let age = (round as i64 - group.since) as u64;
                left.add(age, (before - group.members.len()) as u64);
            }
        }
        self.clients.switch(world);
        left
    }

    /// The number of clients online, by the round since which they wait.
    pub(crate) fn census(&self, world: &RoundWorld) -> impl Iterator<Item = (i64, u64)> {
        let is_online = |&&member: &&u16| self.clients.is_online(world, member);
        self.groups.iter().map(move |group| {
            let online = if world.everyone_is_online() {
                group.members.len()
            } else {
                group.members.iter().filter(is_online).count()
            };
            (group.since, online as u64)
        })
    }

    /// The number of clients that are online and held back because they failed, by the round since which they wait for a
    /// credit.
    pub(crate) fn waiting(&self, world: &RoundWorld) -> Vec<(i64, u64)> {
        if self.clients.none_waits() {
            return Vec::new();
        }
        let waits = |&&member: &&u16| {
            self.clients.is_online(world, member) && !self.clients.can_be_asked(world, member)
        };
        let waiting =
            |group: &Group| (group.since, group.members.iter().filter(waits).count() as u64);
        self.groups.iter().map(waiting).filter(|&(_, count)| count > 0).collect()
    }

    /// The clients that are online and held back, each with its failures.
    fn held_back(&self, world: &RoundWorld) -> impl Iterator<Item = (u32, Failures)> {
        let looks = !self.clients.none_waits();
        let members = self.groups.iter().filter(move |_| looks);
        let members = members.flat_map(|group| group.members.iter().copied());
        let online = members.filter(|&member| self.clients.is_online(world, member));
        let held_back =
            |member| Some((self.clients.number(member), self.clients.held_back(world, member)?));
        online.filter_map(held_back)
    }

    /// The clients that are online and held back, each with the first round in which it may be asked again.
    pub(crate) fn first_to_come_back(&self, world: &RoundWorld) -> Vec<(u64, u32)> {
        let until = |(client, failures): (u32, Failures)| (failures.eligible_from(), client);
        self.held_back(world).map(until).collect()
    }

    /// The clients that are online and take turns; from now on they are asked only in their turns.
    pub(crate) fn turns(&mut self, world: &RoundWorld, interval: f64) -> RetryTurns {
        self.clients.take_turns();
        let mut turns = RetryTurns::default();
        for (client, failures) in self.held_back(world) {
            turns.add(client, failures, interval);
        }
        turns
    }

    /// Lets a client be asked in this round although it is held back.
    pub(crate) fn release(&mut self, client: u32) {
        self.clients.release(client);
    }

    /// Chooses among all groups and takes out who will be credited.
    pub(crate) fn choose<'a>(
        &mut self,
        world: &RoundWorld,
        draws: &Draws,
        round: u64,
        choice: impl Fn(i64) -> Choice<'a>,
    ) -> ShardSelection {
        let mut found = ShardSelection::default();
        let picker = Picker { world, draws, clients: &self.clients };
        let marks = &self.marks;
        for group in &mut self.groups {
            let age = (round as i64 - group.since) as u64;
            let members = &mut group.members;
            let choice = choice(group.since);
            self.log.take(round, age, |taken| match choice {
                Choice::None => {}
                Choice::Everyone if picker.is_calm() => {
                    found.selected += members.len() as u64;
                    taken.append(members);
                }
                Choice::Everyone => picker.pick(members, taken, &mut found, |_| true),
                Choice::Chance(chance) => {
                    picker.pick(members, taken, &mut found, |member| {
                        chance.wins(picker.draw(member))
                    });
                }
                Choice::OwnLaw(laws) => picker.pick(members, taken, &mut found, |member| {
                    laws.takes_part(picker.clients.number(member), age, picker.draw(member))
                }),
                Choice::Marked => {
                    picker.pick(members, taken, &mut found, |member| bit(marks, member));
                }
                Choice::LowDraws(bounds) => {
                    picker.pick_low_draws(members, taken, &mut found, bounds);
                }
            });
            self.failed.extend(found.failed.drain(..).map(|member| (group.since, member)));
        }
        found
    }

    /// Decides about a client that was between the bounds. A client that drops out is not credited.
    pub(crate) fn decide(
        &mut self,
        world: &RoundWorld,
        client: u32,
        (round, since): (u64, i64),
        selected: bool,
    ) {
        let member = self.clients.member(client);
        if selected && !world.drops_out(client) {
            let age = (round as i64 - since) as u64;
            self.log.take(round, age, |taken| taken.push(member));
            return;
        }
        if selected {
            self.failed.push((since, member));
        }
        self.put_back(member, since);
    }

    /// Undoes a choice by draw in the group of `since`, and gives its clients between the bounds back.
    pub(crate) fn undo(&mut self, round: u64, since: i64, near: &[(u64, u32)]) {
        self.failed.retain(|&(group, _)| group != since);
        let taken = self.log.undo(round, (round as i64 - since) as u64);
        let near = near.iter().map(|&(_, client)| self.clients.member(client));
        for member in taken.into_iter().chain(near.collect::<Vec<_>>()) {
            self.put_back(member, since);
        }
    }

    /// Adds a member to the group that waits since a round.
    fn put_back(&mut self, member: u16, since: i64) {
        let place = self.groups.partition_point(|group| group.since < since);
        match self.groups.get_mut(place).filter(|group| group.since == since) {
            Some(group) => group.members.push(member),
            None => self.groups.insert(place, Group { since, members: vec![member] }),
        }
    }

    /// Marks up to `count` clients with the lowest numbers of a range, of those online that wait since
    /// this round; returns how many.
    pub(crate) fn mark_low_numbers(
        &mut self,
        world: &RoundWorld,
        since: i64,
        count: u64,
        range: &Range<u32>,
    ) -> u64 {
        let here = self.clients.numbers();
        let apart = range.end <= here.start || here.end <= range.start;
        let group = self.groups.iter().find(|group| group.since == since);
        let Some(group) = group.filter(|_| count > 0 && !apart) else {
            return 0;
        };
        let concerns = |&member: &u16| {
            range.contains(&self.clients.number(member)) && self.clients.can_be_asked(world, member)
        };
        let mut members: Vec<u16> = group.members.iter().copied().filter(concerns).collect();
        members.sort_unstable();
        members.truncate(count as usize);
        for &member in &members {
            set_bit(&mut self.marks, member, true);
        }
        members.len() as u64
    }

    /// Marks one client of this shard.
    pub(crate) fn mark(&mut self, client: u32) {
        set_bit(&mut self.marks, self.clients.member(client), true);
    }

    /// Forgets all marks.
    pub(crate) fn clear_marks(&mut self) {
        self.marks.clear();
        self.marks.resize((self.clients.count() as usize).div_ceil(64), 0);
    }

    /// The client with the lowest draw of those that can be asked.
    pub(crate) fn lowest_draw(&self, world: &RoundWorld, draws: &Draws) -> Option<(u64, u32)> {
        let members = self.groups.iter().flat_map(|group| group.members.iter().copied());
        let online = members.filter(|&member| self.clients.can_be_asked(world, member));
        let draw = |member| {
            let client = self.clients.number(member);
            (draws.of(u64::from(client)).bits(), client)
        };
        online.map(draw).min()
    }

    /// Those that were selected and did not report have to wait after failures: `interval` is the target interval of each
    /// client.
    pub(crate) fn back_off(&mut self, round: u64, interval: impl Fn(u32) -> f64) {
        let failed = self.failed.iter().map(|&(_, member)| member);
        self.clients.note_outcomes(round, self.log.present(), failed, interval);
    }

    /// Ends a round: the clients that were taken make the youngest group of the next. Returns the number of them, and
    /// the sum of their sizes if there are any.
    pub(crate) fn end(&mut self, round: u64, sizes: Option<&Sizes>) -> (u64, f64) {
        self.groups.retain_mut(|group| {
            if group.members.is_empty() {
                self.spare.push(std::mem::take(&mut group.members));
            }
            group.members.capacity() > 0
        });
        let taken = self.log.present();
        if !taken.is_empty() {
            let mut members = self.spare.pop().unwrap_or_default();
            members.extend_from_slice(taken);
            self.groups.push(Group { since: round as i64 + 1, members });
        }
        self.spare.truncate(SPARE);
        let size = sizes.map_or(0.0, |sizes| self.clients.total_size(taken, sizes));
        (taken.len() as u64, size)
    }

    /// Credits the clients that were taken in these rounds.
    pub(crate) fn take_metrics(
        &mut self,
        rounds: &[UncountedRound],
        sizes: &Sizes,
    ) -> Vec<RoundMetrics> {
        fetch(&self.clients.counters);
        let clients = &mut self.clients;
        let number = |pending: &UncountedRound| pending.round;
        self.log.take_metrics(rounds, number, |pending, age, members, metrics| {
            metrics.ages.add(age, members.len() as u64);
            if let Some(now) = pending.recorded {
                let fresh = Fresh::new(age, now);
                let sums = credit_members(members, |_| fresh, pending.weigher, sizes, clients);
                metrics.sums.merge(&sums);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_core::{Seed, Stream};
    use lowest_draws::sort_out;

    fn lowest(shard: &mut Shard, draws: &Draws, bounds: Bounds, count: u64) -> Vec<u16> {
        let now = World::calm(Seed(1)).at(0);
        shard.begin(&now, 0);
        let choice = |since| if since == 0 { Choice::LowDraws(bounds) } else { Choice::None };
        let found = shard.choose(&now, draws, 0, choice);
        let Some(missing) = lowest_draws::missing(count, std::slice::from_ref(&found)) else {
            shard.undo(0, 0, &found.near);
            return lowest(shard, draws, Bounds::NONE, count);
        };
        for (client, selected) in sort_out(vec![found], missing) {
            shard.decide(&now, client, (0, 0), selected);
        }
        let mut taken = shard.log.present().to_vec();
        taken.sort_unstable();
        taken
    }

    /// Guesses that are right, too low and too high, against sorting all draws.
    #[test]
    fn the_lowest_draws_are_found_by_any_guess() {
        let draws = Draws::new(Seed(1), Stream::DRAW, 0);
        let ages: Vec<u64> = (0..1_000).map(|client| client % 2).collect();
        let mut order: Vec<u16> = (0..1_000).step_by(2).collect();
        order.sort_unstable_by_key(|&client| draws.of(u64::from(client)));
        order.truncate(100);
        order.sort_unstable();
        let tenths = |tenths: u64| u64::MAX / 10 * tenths;
        for (sure, possible) in [(1, 3), (0, 1), (5, 6), (0, 10)] {
            let bounds = Bounds { sure: tenths(sure), possible: tenths(possible) };
            let mut shard = Shard::new(0, &ages);
            assert_eq!(lowest(&mut shard, &draws, bounds, 100), order);
            shard.end(0, None);
            assert_eq!(shard.members_since(1).count(), 100);
            assert_eq!(shard.members_since(0).count(), 400);
            assert_eq!(shard.members_since(-1).count(), 500);
        }
    }
}
