//! A shard: up to 65,536 neighbouring clients, kept in groups of equal age.
//!
//! Shards are what threads share out. Each owns its clients completely, so a round is a few passes over all
//! shards in parallel with small sums in between, and the result does not depend on who did which. A group is a
//! list of 2-byte numbers: clients of an age that cannot be due are not touched at all, and a group that takes
//! part as a whole is moved as a whole.

use crate::tally::{CreditSums, Fresh, Tally, credit};
use crate::world::RoundWorld;
use agewise_core::metrics::Intervals;
use agewise_core::{Chance, Laws, Lots};
use std::ops::Range;

/// Clients per shard: small enough for the second-level cache, large enough to share out.
pub(crate) const SHARD: u32 = 32_768;

/// How many clients are brought into the cache before they are updated.
const AHEAD: usize = 128;

/// Clients that wait since the same round.
#[derive(Debug, Clone)]
struct Group {
    since: i64,
    members: Vec<u16>,
}

/// How the members of a group are chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verdict<'a> {
    /// None of them.
    Nobody,
    /// All who are online.
    Everyone,
    /// Those online whose lot wins.
    Chance(Chance),
    /// Those online whose lot wins against their own law.
    OwnLaw(&'a Laws),
    /// Those that were marked.
    Marked,
}

/// Clients of one shard.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    first: u32,
    /// The oldest first.
    groups: Vec<Group>,
    tallies: Vec<Tally>,
    /// One bit per client: online, for worlds with a memory. Empty otherwise.
    online: Vec<u64>,
    /// One bit per client: chosen, while a ranking is being worked out.
    marks: Vec<u64>,
    /// Who is credited in this round, by the round since which they waited.
    credited: Vec<Group>,
    scratch: Vec<u16>,
    pub(crate) intervals: Intervals,
}

fn bit(bits: &[u64], index: u16) -> bool {
    bits[usize::from(index) / 64] >> (index % 64) & 1 == 1
}

fn set_bit(bits: &mut [u64], index: u16, value: bool) {
    let mask = 1 << (index % 64);
    let word = &mut bits[usize::from(index) / 64];
    *word = if value { *word | mask } else { *word & !mask };
}

impl Shard {
    /// The clients `first..first + ages.len()`, with their ages at the beginning of round 0.
    pub(crate) fn new(first: u32, ages: &[u64]) -> Self {
        let mut order: Vec<(i64, u16)> =
            (0..).zip(ages).map(|(index, &age)| (-(age.min(1 << 40) as i64), index)).collect();
        order.sort_unstable();
        let groups = order.chunk_by(|a, b| a.0 == b.0).map(|chunk| Group {
            since: chunk[0].0,
            members: chunk.iter().map(|&(_, index)| index).collect(),
        });
        Self {
            first,
            groups: groups.collect(),
            tallies: vec![Tally::default(); ages.len()],
            online: Vec::new(),
            marks: Vec::new(),
            credited: Vec::new(),
            scratch: Vec::new(),
            intervals: Intervals::default(),
        }
    }

    /// How many clients it has had.
    pub(crate) fn clients(&self) -> u32 {
        self.tallies.len() as u32
    }

    /// Counts of all clients it has had.
    pub(crate) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// The number of clients that are there, by the round since which they wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (i64, u64)> {
        self.groups.iter().map(|group| (group.since, group.members.len() as u64))
    }

    /// The clients that wait since a round.
    pub(crate) fn members_since(&self, since: i64) -> impl Iterator<Item = u32> {
        let groups = self.groups.iter().filter(move |group| group.since == since);
        groups.flat_map(|group| group.members.iter().map(|&m| self.first + u32::from(m)))
    }

    /// Brings in clients up to `total` in this shard; they join with age 0.
    pub(crate) fn join(&mut self, total: u32, round: u64, starts_online: impl Fn(u32) -> bool) {
        let present = self.clients();
        if total <= present {
            return;
        }
        self.tallies.resize(total as usize, Tally::default());
        let since = round as i64;
        let newcomers = (present..total).map(|client| client as u16);
        // Those credited in the round before have age 0 too: one group, not two.
        match self.groups.last_mut().filter(|group| group.since == since) {
            Some(group) => group.members.extend(newcomers),
            None => self.groups.push(Group { since, members: newcomers.collect() }),
        }
        if !self.online.is_empty() {
            self.remember_online(present..total, starts_online);
        }
    }

    /// Begins to remember who is online.
    pub(crate) fn start_memory(&mut self, starts_online: impl Fn(u32) -> bool) {
        self.remember_online(0..self.clients(), starts_online);
    }

    fn remember_online(&mut self, clients: Range<u32>, online: impl Fn(u32) -> bool) {
        self.online.resize((clients.end as usize).div_ceil(64).max(1), 0);
        for client in clients {
            set_bit(&mut self.online, client as u16, online(self.first + client));
        }
    }

    /// Begins a round: some leave for good, some go offline or come back.
    pub(crate) fn begin(&mut self, world: &RoundWorld) {
        let first = self.first;
        if world.somebody_may_leave() {
            for group in &mut self.groups {
                group.members.retain(|&member| !world.leaves(first + u32::from(member)));
            }
        }
        if world.has_memory() {
            for client in 0..self.clients() {
                let before = bit(&self.online, client as u16);
                set_bit(&mut self.online, client as u16, world.switched(first + client, before));
            }
        }
    }

    fn is_online(&self, world: &RoundWorld, member: u16) -> bool {
        let remembered = !self.online.is_empty() && bit(&self.online, member);
        world.is_online(self.first + u32::from(member), remembered)
    }

    /// The number of clients online, by the round since which they wait.
    pub(crate) fn census(&self, world: &RoundWorld) -> Vec<(i64, u64)> {
        let online = |group: &Group| {
            if world.everyone_is_online() {
                group.members.len()
            } else {
                group.members.iter().filter(|&&member| self.is_online(world, member)).count()
            }
        };
        self.groups.iter().map(|group| (group.since, online(group) as u64)).collect()
    }

    /// Marks those of the groups that `concerns` whose lots are under `sure`, and returns their number and
    /// the clients whose lots lie between `sure` and `possible`.
    pub(crate) fn mark_low_lots(
        &mut self,
        world: &RoundWorld,
        lots: &Lots,
        concerns: impl Fn(i64) -> bool,
        sure: u64,
        possible: u64,
    ) -> (u64, Vec<(u64, u32)>) {
        self.clear_marks();
        let mut marks = std::mem::take(&mut self.marks);
        let mut count = 0;
        let mut between = Vec::new();
        for group in self.groups.iter().filter(|group| concerns(group.since)) {
            for &member in &group.members {
                let client = self.first + u32::from(member);
                let lot = lots.of(u64::from(client)).bits();
                if lot < possible && self.is_online(world, member) {
                    if lot < sure {
                        set_bit(&mut marks, member, true);
                        count += 1;
                    } else {
                        between.push((lot, client));
                    }
                }
            }
        }
        self.marks = marks;
        (count, between)
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
        let here = self.first..self.first + self.clients();
        let apart = range.end <= here.start || here.end <= range.start;
        let group = self.groups.iter().find(|group| group.since == since);
        let Some(group) = group.filter(|_| count > 0 && !apart) else {
            return 0;
        };
        let concerns = |&member: &u16| {
            range.contains(&(self.first + u32::from(member))) && self.is_online(world, member)
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
        set_bit(&mut self.marks, (client - self.first) as u16, true);
    }

    /// Forgets all marks.
    pub(crate) fn clear_marks(&mut self) {
        self.marks.clear();
        self.marks.resize(self.tallies.len().div_ceil(64), 0);
    }

    /// The client online with the lowest lot.
    pub(crate) fn lowest_lot(&self, world: &RoundWorld, lots: &Lots) -> Option<(u64, u32)> {
        let members = self.groups.iter().flat_map(|group| group.members.iter().copied());
        let online = members.filter(|&member| self.is_online(world, member));
        let lot = |member| {
            let client = self.first + u32::from(member);
            (lots.of(u64::from(client)).bits(), client)
        };
        online.map(lot).min()
    }

    /// Chooses among all groups and takes out who will be credited; returns how many were selected.
    pub(crate) fn choose<'a>(
        &mut self,
        world: &RoundWorld,
        lots: &Lots,
        round: u64,
        verdict: impl Fn(i64) -> Verdict<'a>,
    ) -> u64 {
        let calm = world.everyone_is_online() && world.nobody_drops_out();
        let mut selected = 0;
        let mut groups = std::mem::take(&mut self.groups);
        for group in &mut groups {
            let members = match verdict(group.since) {
                Verdict::Nobody => continue,
                Verdict::Everyone if calm => {
                    selected += group.members.len() as u64;
                    std::mem::take(&mut group.members)
                }
                Verdict::Everyone => self.split(group, world, &mut selected, |_| true),
                Verdict::Chance(chance) => {
                    let first = self.first;
                    let wins =
                        |member: u16| chance.wins(lots.of(u64::from(first + u32::from(member))));
                    self.split(group, world, &mut selected, wins)
                }
                Verdict::OwnLaw(laws) => {
                    let (first, age) = (self.first, (round as i64 - group.since) as u64);
                    let wins = |member: u16| {
                        let client = first + u32::from(member);
                        laws.takes_part(client, age, lots.of(u64::from(client)))
                    };
                    self.split(group, world, &mut selected, wins)
                }
                Verdict::Marked => {
                    let marks = std::mem::take(&mut self.marks);
                    let members =
                        self.split(group, world, &mut selected, |member| bit(&marks, member));
                    self.marks = marks;
                    members
                }
            };
            if !members.is_empty() {
                self.credited.push(Group { since: group.since, members });
            }
        }
        groups.retain(|group| !group.members.is_empty());
        self.groups = groups;
        selected
    }

    /// Takes the credited members out of a group: chosen, online, and not dropped out.
    fn split(
        &mut self,
        group: &mut Group,
        world: &RoundWorld,
        selected: &mut u64,
        wins: impl Fn(u16) -> bool,
    ) -> Vec<u16> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(group.members.len(), 0);
        let calm = world.everyone_is_online() && world.nobody_drops_out();
        let (mut taken, mut left) = (0, 0);
        for index in 0..group.members.len() {
            let member = group.members[index];
            let mut credited = wins(member);
            if !calm {
                credited = credited && self.is_online(world, member);
                *selected += u64::from(credited);
                credited = credited && !world.drops_out(self.first + u32::from(member));
            }
            // Written to both places, kept in one: no branch to mispredict.
            scratch[taken] = member;
            group.members[left] = member;
            taken += usize::from(credited);
            left += usize::from(!credited);
        }
        if calm {
            *selected += taken as u64;
        }
        group.members.truncate(left);
        let members = scratch[..taken].to_vec();
        self.scratch = scratch;
        members
    }

    /// The clients that are credited in this round.
    pub(crate) fn credited(&self) -> impl Iterator<Item = u32> {
        let members = self.credited.iter().flat_map(|group| group.members.iter());
        members.map(|&member| self.first + u32::from(member))
    }

    /// How many clients are credited in this round.
    pub(crate) fn credited_count(&self) -> u64 {
        self.credited.iter().map(|group| group.members.len() as u64).sum()
    }

    /// Credits the chosen clients; metrics are recorded from round `recorded_from` on.
    pub(crate) fn credit(
        &mut self,
        round: u64,
        recorded_from: u64,
        weight: impl Fn(u32) -> f64,
    ) -> CreditSums {
        let mut sums = CreditSums::default();
        let credited = std::mem::take(&mut self.credited);
        if let Some(now) = round.checked_sub(recorded_from) {
            for group in &credited {
                let age = (round as i64 - group.since) as u64;
                self.intervals.record_many(age, group.members.len() as u64);
                let last = group.since - 1 - recorded_from as i64;
                let first = self.first;
                let fresh = Fresh::new(last, now);
                for members in group.members.chunks(AHEAD) {
                    // Reading one field of each client first brings their cache lines in side by side;
                    // the loop that updates them is too long for the processor to look so far ahead.
                    let tallies = &mut self.tallies;
                    let read =
                        members.iter().map(|&member| tallies[usize::from(member)].selections);
                    std::hint::black_box(read.fold(0, |all, one| all ^ one));
                    let weighed =
                        |&member: &u16| (usize::from(member), weight(first + u32::from(member)));
                    sums.merge(&credit(tallies, members.iter().map(weighed), fresh));
                }
            }
        }
        self.groups.extend(self.regroup(credited, round as i64 + 1));
        sums
    }

    /// Puts the credited clients into one group, in increasing order, so that the next pass over their
    /// tallies goes through memory from one end to the other. Sorted by setting bits and reading them back.
    fn regroup(&self, credited: Vec<Group>, since: i64) -> Option<Group> {
        let clients: usize = credited.iter().map(|group| group.members.len()).sum();
        if credited.len() < 2 {
            return credited.into_iter().next().map(|group| Group { since, ..group });
        }
        let mut bits = vec![0u64; self.tallies.len().div_ceil(64)];
        for group in credited {
            for member in group.members {
                bits[usize::from(member) / 64] |= 1 << (member % 64);
            }
        }
        let mut members = Vec::with_capacity(clients);
        for (word, mut rest) in (0u16..).zip(bits) {
            while rest != 0 {
                members.push(word * 64 + rest.trailing_zeros() as u16);
                rest &= rest - 1;
            }
        }
        Some(Group { since, members })
    }
}
