//! The engine for policies that follow age: clients stay in order of age, and a round costs what the clients
//! cost that can be due. Weights are equal or by data size; unbiased weights need the policy itself, and so the
//! other engine.

use super::round::{RoundMetrics, RoundSelection, merge};
use super::shard::lowest_draws::{Bounds, ShardSelection, missing, sort_out};
use super::shard::{Choice, Shard};
use super::shards::Shards;
use crate::world::RoundWorld;
use agewise_core::{Chance, Draws, EmptyCohort, Laws, Plan, Ranking, Stream};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Clients of a population in which those online are counted in every round.
const COUNTED: u32 = 1_000_000;

/// How clients are chosen; owned, because a calibrated law changes from round to round.
#[derive(Debug, Clone)]
pub(crate) enum SelectionRule {
    Laws(Laws),
    Ranked(Ranking),
}

impl SelectionRule {
    /// The rule of a plan, if it follows age or draws.
    pub(crate) fn of(plan: Plan<'_>) -> Option<Self> {
        match plan {
            Plan::Laws(laws) => Some(Self::Laws(laws.clone())),
            Plan::Ranked(ranking) => Some(Self::Ranked(ranking)),
            Plan::Select => None,
        }
    }
}

/// A population in age order.
pub(crate) type ByAge = Shards<Shard>;

impl ByAge {
    /// Chooses the clients of a round by a rule. The metrics follow in [`Self::take_metrics`].
    /// `interval` is the target interval that was published for the round, where clients decide alone.
    pub(crate) fn choose(
        &mut self,
        round: u64,
        interval: f64,
        rule: &SelectionRule,
    ) -> RoundSelection {
        let now = self.world.at(round);
        let joined = self.join(round);
        let draws = Draws::new(self.world.seed, Stream::DRAW, round);
        let mut chosen = RoundSelection { joined, ..RoundSelection::default() };
        match rule {
            SelectionRule::Laws(laws) => self.choose_by_law(&now, &draws, round, laws, &mut chosen),
            SelectionRule::Ranked(ranking) => {
                self.choose_by_rank(&now, &draws, round, *ranking, &mut chosen);
            }
        }
        if chosen.selected == 0 && self.setting.empty_cohort() == EmptyCohort::ForceOne {
            chosen.selected = self.force_one(&now, round);
            chosen.forced = chosen.selected > 0;
        }
        if self.setting.backoff() && !now.all_report() {
            let everyone = self.everyones_interval();
            let rates = self.setting.clone();
            let interval = move |client| match (rule, rates.rates()) {
                (SelectionRule::Ranked(_), _) => everyone,
                (SelectionRule::Laws(_), None) => interval,
                (SelectionRule::Laws(_), Some(_)) => rates.interval_of(client),
            };
            self.map(|shard| shard.back_off(round, &interval));
        }
        let mut total_size = 0.0;
        let by_size = self.weighing.by_size.then(|| self.setting.sizes().clone());
        for (reported, size) in self.map(|shard| shard.end(round, by_size.as_ref())) {
            chosen.reported += reported;
            // Summed in the order of shards, so that the sum does not depend on threads.
            total_size += size;
        }
        self.postpone(round, chosen.reported, total_size);
        chosen
    }

    /// Credits the clients of all rounds chosen since the last time.
    pub(crate) fn take_metrics(&mut self) -> Vec<RoundMetrics> {
        let pending = std::mem::take(&mut self.pending);
        let sizes = self.setting.sizes().clone();
        merge(pending.len(), self.map(|shard| shard.take_metrics(&pending, &sizes)))
    }

    /// n/m of all who have joined.
    fn everyones_interval(&self) -> f64 {
        f64::from(self.joined()) / f64::from(self.setting.cohort())
    }

    fn choose_by_law(
        &mut self,
        now: &RoundWorld,
        draws: &Draws,
        round: u64,
        laws: &Laws,
        chosen: &mut RoundSelection,
    ) {
        let choice = |since: i64| match laws.common() {
            None => Choice::OwnLaw(laws),
            Some(law) => match Chance::new(law.probability((round as i64 - since) as u64)) {
                Chance::NEVER => Choice::None,
                Chance::CERTAIN => Choice::Everyone,
                chance => Choice::Chance(chance),
            },
        };
        // Only clients that may be due are asked whether they are online, unless the population is small.
        let counted = now.everyone_is_online() || self.setting.clients() <= COUNTED;
        let found = self.map(|shard| {
            let left = shard.begin(now, round);
            let online = counted.then(|| shard.census(now).map(|(_, count)| count).sum());
            (left, online, shard.choose(now, draws, round, choice).selected)
        });
        chosen.available = Some(0);
        for (left, online, selected) in found {
            chosen.left.merge(&left);
            chosen.available =
                chosen.available.zip(online).map(|(all, here): (u64, u64)| all + here);
            chosen.selected += selected;
        }
    }

    fn choose_by_rank(
        &mut self,
        now: &RoundWorld,
        draws: &Draws,
        round: u64,
        ranking: Ranking,
        chosen: &mut RoundSelection,
    ) {
        let mut online: BTreeMap<i64, u64> = BTreeMap::new();
        let found =
            self.map(|shard| (shard.begin(now, round), shard.census(now).collect::<Vec<_>>()));
        for (left, census) in found {
            chosen.left.merge(&left);
            for (since, count) in census {
                *online.entry(since).or_default() += count;
            }
        }
        chosen.available = Some(online.values().sum());
        self.leave_out_waiting(now, &mut online);
        // Whole groups from the oldest on, until one is larger than what is left to choose.
        let mut left = u64::from(self.setting.cohort());
        let mut last = None;
        for (&since, &count) in &online {
            if count > left {
                last = Some((since, count));
                break;
            }
            left -= count;
        }
        chosen.selected = match last {
            Some((since, count)) if ranking != Ranking::OldestThenNumbers => {
                self.choose_low_draws(now, draws, round, since, Share { left, count })
            }
            boundary => {
                let boundary = boundary.map(|(since, _)| {
                    let cohort = self.setting.cohort();
                    let first = Ranking::first_number(self.joined(), cohort, round);
                    self.mark_by_number(now, first, since, left);
                    (since, Choice::Marked)
                });
                let found = self.choose_oldest(now, draws, round, boundary);
                found.iter().map(|found| found.selected).sum()
            }
        };
    }

    /// Takes those out of a census that are held back because they failed, but for those whose turn it is, and for the
    /// first of them if there are fewer others than places.
    fn leave_out_waiting(&mut self, now: &RoundWorld, online: &mut BTreeMap<i64, u64>) {
        let all: u64 = online.values().sum();
        let count = |shards: Vec<Vec<(i64, u64)>>| -> Vec<(i64, u64)> { shards.concat() };
        let interval = self.everyones_interval();
        let turns = self.map(|shard| shard.turns(now, interval)).into_iter();
        let turns = turns.reduce(|mut all, turns| {
            all.merge(turns);
            all
        });
        let turns = turns.unwrap_or_default().places(now.round());
        let mut waiting = count(self.map(|shard| shard.waiting(now)));
        let cohort = u64::from(self.setting.cohort());
        let eligible = all - waiting.iter().map(|(_, count)| count).sum::<u64>();
        let released = cohort.saturating_sub(eligible).max(turns.len() as u64) as usize;
        if released > 0 && !waiting.is_empty() {
            // Those whose turn it is do not wait any more, so they are the first.
            let mut first = self.map(|shard| shard.first_to_come_back(now)).concat();
            first.sort_unstable();
            for (_, client) in first.into_iter().take(released) {
                self.of(client).release(client);
            }
            waiting = count(self.map(|shard| shard.waiting(now)));
        }
        for (since, count) in waiting {
            if let Some(online) = online.get_mut(&since) {
                *online -= count;
            }
        }
    }

    /// Chooses whole groups that are older than a boundary, and by some other rule from the one at it.
    fn choose_oldest(
        &mut self,
        now: &RoundWorld,
        draws: &Draws,
        round: u64,
        boundary: Option<(i64, Choice<'_>)>,
    ) -> Vec<ShardSelection> {
        let choice = |since: i64| match boundary {
            None => Choice::Everyone,
            Some((boundary, choice)) => match since.cmp(&boundary) {
                Ordering::Less => Choice::Everyone,
                Ordering::Equal => choice,
                Ordering::Greater => Choice::None,
            },
        };
        self.map(|shard| shard.choose(now, draws, round, choice))
    }

    /// Chooses whole groups that are older than a boundary, and the lowest draws from the one at it.
    fn choose_low_draws(
        &mut self,
        now: &RoundWorld,
        draws: &Draws,
        round: u64,
        since: i64,
        share: Share,
    ) -> u64 {
        let cohort = u64::from(self.setting.cohort());
        let bounds = Bounds::guess(share.left, share.count);
        let boundary = Some((since, Choice::LowDraws(bounds)));
        let mut found = self.choose_oldest(now, draws, round, boundary);
        let wanted = missing(cohort, &found).unwrap_or_else(|| {
            // Far from what could be expected: look at everyone of that age.
            for (shard, found) in self.each.iter_mut().zip(&found) {
                shard.undo(round, since, &found.near);
            }
            found = self.map(|shard| {
                let all = Choice::LowDraws(Bounds::NONE);
                let choice = |s: i64| if s == since { all } else { Choice::None };
                shard.choose(now, draws, round, choice)
            });
            share.left
        });
        for (client, selected) in sort_out(found, wanted) {
            self.of(client).decide(now, client, (round, since), selected);
        }
        cohort
    }

    /// Marks the `count` next numbers, counted from `first` around.
    fn mark_by_number(&mut self, now: &RoundWorld, first: u32, since: i64, count: u64) {
        self.map(Shard::clear_marks);
        let mut left = count;
        for range in [first..u32::MAX, 0..first] {
            for shard in &mut self.each {
                left -= shard.mark_low_numbers(now, since, left, &range);
            }
        }
    }

    /// One client online, by the lowest draw of a stream of its own; one that has to wait because it failed only if all
    /// have to.
    fn force_one(&mut self, now: &RoundWorld, round: u64) -> u64 {
        let draws = Draws::new(self.world.seed, Stream::FORCED, round);
        let mut lowest =
            self.map(|shard| shard.lowest_draw(now, &draws)).into_iter().flatten().min();
        if lowest.is_none() {
            for (_, client) in self.map(|shard| shard.first_to_come_back(now)).concat() {
                self.of(client).release(client);
            }
            lowest = self.map(|shard| shard.lowest_draw(now, &draws)).into_iter().flatten().min();
        }
        let Some((_, client)) = lowest else {
            return 0;
        };
        let shard = self.of(client);
        shard.clear_marks();
        shard.mark(client);
        shard.choose(now, &draws, round, |_| Choice::Marked).selected
    }

    /// The clients that wait since a round: those that were credited in the one before.
    pub(crate) fn members_since(&self, since: i64) -> Vec<u32> {
        let mut members: Vec<u32> =
            self.each.iter().flat_map(|shard| shard.members_since(since)).collect();
        members.sort_unstable();
        members
    }
}

/// How many of so many clients are to be chosen.
#[derive(Debug, Clone, Copy)]
struct Share {
    left: u64,
    count: u64,
}
