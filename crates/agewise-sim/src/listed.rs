//! The engine for policies that follow age: clients stay in order of age, and a round costs what the clients
//! cost that can be due. Weights are equal or by data size; unbiased weights need the policy itself, and so the
//! other engine.

use crate::played::{Chosen, Settled, Unsettled, Weighing, merge};
use crate::shard::bounds::{Bounds, Found, missing, sort_out};
use crate::shard::{SHARD, Shard, Verdict};
use crate::world::{RoundWorld, World};
use agewise_core::{Chance, EmptyCohort, Laws, Lots, Plan, Ranking, Setting, Stream};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How clients are chosen; owned, because a calibrated law changes from round to round.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Laws(Laws),
    Ranked(Ranking),
}

impl Rule {
    /// The rule of a plan, if it follows age or lots.
    pub(crate) fn of(plan: Plan<'_>) -> Option<Self> {
        match plan {
            Plan::Laws(laws) => Some(Self::Laws(laws.clone())),
            Plan::Ranked(ranking) => Some(Self::Ranked(ranking)),
            Plan::Select => None,
        }
    }
}

/// A population in age order.
#[derive(Debug)]
pub(crate) struct Listed {
    setting: Setting,
    weighing: Weighing,
    world: World,
    warmup: u64,
    /// The number of clients at the beginning of the run.
    first_clients: u32,
    shards: Vec<Shard>,
    unsettled: Vec<Unsettled>,
}

impl Listed {
    /// A population with these first ages. `setting` has the sizes of all clients that will ever join.
    pub(crate) fn new(
        setting: Setting,
        world: World,
        weighing: Weighing,
        warmup: u64,
        first_ages: Vec<u64>,
    ) -> Self {
        let first_clients = first_ages.len() as u32;
        let mut shards: Vec<Shard> = first_ages
            .par_chunks(SHARD as usize)
            .enumerate()
            .map(|(index, ages)| Shard::new(index as u32 * SHARD, ages))
            .collect();
        drop(first_ages);
        shards.par_iter_mut().for_each(|shard| {
            let residents = shard.residents_mut();
            residents.start_tallies();
            if world.at(0).has_memory() {
                residents.start_memory(|client| world.starts_online(client));
            }
        });
        Self { first_clients, weighing, setting, world, warmup, shards, unsettled: Vec::new() }
    }

    /// Whether there is enough to share out.
    pub(crate) fn is_large(&self) -> bool {
        self.shards.len() > 1
    }

    /// Chooses the clients of a round by a rule. The metrics follow in [`Self::settle`].
    pub(crate) fn choose(&mut self, round: u64, rule: &Rule) -> Chosen {
        let now = self.world.at(round);
        let joined = self.join(round);
        let lots = Lots::new(self.world.seed, Stream::LOT, round);
        let mut chosen = Chosen { joined, ..Chosen::default() };
        match rule {
            Rule::Laws(laws) => self.choose_by_law(&now, &lots, round, laws, &mut chosen),
            Rule::Ranked(ranking) => self.choose_by_rank(&now, &lots, round, *ranking, &mut chosen),
        }
        if chosen.selected == 0 && self.setting.empty_cohort() == EmptyCohort::ForceOne {
            chosen.selected = self.force_one(&now, round);
            chosen.forced = chosen.selected > 0;
        }
        let mut total_size = 0.0;
        let by_size = self.weighing.by_size.then(|| self.setting.sizes().clone());
        for (reported, size) in self.each_shard(|shard| shard.end(round, by_size.as_ref())) {
            chosen.reported += reported;
            // Summed in the order of shards, so that the sum does not depend on threads.
            total_size += size;
        }
        self.unsettled.push(Unsettled {
            round,
            recorded: round.checked_sub(self.warmup),
            weigher: self.weighing.of_cohort(chosen.reported, total_size),
        });
        chosen
    }

    /// Credits the clients of all rounds chosen since the last time.
    pub(crate) fn settle(&mut self) -> Vec<Settled> {
        let unsettled = std::mem::take(&mut self.unsettled);
        let sizes = self.setting.sizes().clone();
        merge(unsettled.len(), self.each_shard(|shard| shard.settle(&unsettled, &sizes)))
    }

    /// Clients that joined since the last round come in; whole new shards where the last one is full.
    fn join(&mut self, round: u64) -> u64 {
        let total = self.world.joined(self.first_clients, round).min(self.setting.clients());
        let have = self.shards.last().map_or(0, |shard| shard.residents().numbers().end);
        if total <= have {
            return 0;
        }
        while (self.shards.len() as u32) * SHARD < total {
            let mut shard = Shard::new(self.shards.len() as u32 * SHARD, &[]);
            if self.world.at(0).has_memory() {
                shard.residents_mut().start_memory(|_| true);
            }
            self.shards.push(shard);
        }
        let world = self.world;
        for (index, shard) in (0..).zip(&mut self.shards) {
            let inside = total.saturating_sub(index * SHARD).min(SHARD);
            shard.join(inside, round, |client| world.starts_online(client));
        }
        u64::from(total - have)
    }

    /// Lets all shards work, in parallel where there are several; results are in their order.
    fn each_shard<T: Send>(&mut self, work: impl Fn(&mut Shard) -> T + Sync + Send) -> Vec<T> {
        if self.is_large() {
            self.shards.par_iter_mut().map(work).collect()
        } else {
            self.shards.iter_mut().map(work).collect()
        }
    }

    fn choose_by_law(
        &mut self,
        now: &RoundWorld,
        lots: &Lots,
        round: u64,
        laws: &Laws,
        chosen: &mut Chosen,
    ) {
        let verdict = |since: i64| match laws.common() {
            None => Verdict::OwnLaw(laws),
            Some(law) => match Chance::new(law.probability((round as i64 - since) as u64)) {
                Chance::NEVER => Verdict::Nobody,
                Chance::CERTAIN => Verdict::Everyone,
                chance => Verdict::Chance(chance),
            },
        };
        let found = self.each_shard(|shard| {
            (shard.begin(now, round), shard.choose(now, lots, round, verdict).selected)
        });
        for (left, selected) in found {
            chosen.left.merge(&left);
            chosen.selected += selected;
        }
    }

    fn choose_by_rank(
        &mut self,
        now: &RoundWorld,
        lots: &Lots,
        round: u64,
        ranking: Ranking,
        chosen: &mut Chosen,
    ) {
        let mut online: BTreeMap<i64, u64> = BTreeMap::new();
        let found = self
            .each_shard(|shard| (shard.begin(now, round), shard.census(now).collect::<Vec<_>>()));
        for (left, census) in found {
            chosen.left.merge(&left);
            for (since, count) in census {
                *online.entry(since).or_default() += count;
            }
        }
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
                self.choose_low_lots(now, lots, round, since, Share { left, count })
            }
            boundary => {
                let boundary = boundary.map(|(since, _)| {
                    let first = Ranking::first_number(&self.setting, round);
                    self.mark_by_number(now, first, since, left);
                    (since, Verdict::Marked)
                });
                let found = self.choose_oldest(now, lots, round, boundary);
                found.iter().map(|found| found.selected).sum()
            }
        };
    }

    /// Chooses whole groups that are older than a boundary, and by some verdict from the one at it.
    fn choose_oldest(
        &mut self,
        now: &RoundWorld,
        lots: &Lots,
        round: u64,
        boundary: Option<(i64, Verdict<'_>)>,
    ) -> Vec<Found> {
        let verdict = |since: i64| match boundary {
            None => Verdict::Everyone,
            Some((boundary, verdict)) => match since.cmp(&boundary) {
                Ordering::Less => Verdict::Everyone,
                Ordering::Equal => verdict,
                Ordering::Greater => Verdict::Nobody,
            },
        };
        self.each_shard(|shard| shard.choose(now, lots, round, verdict))
    }

    /// Chooses whole groups that are older than a boundary, and the lowest lots from the one at it.
    fn choose_low_lots(
        &mut self,
        now: &RoundWorld,
        lots: &Lots,
        round: u64,
        since: i64,
        share: Share,
    ) -> u64 {
        let cohort = u64::from(self.setting.cohort());
        let bounds = Bounds::guess(share.left, share.count);
        let boundary = Some((since, Verdict::LowLots(bounds)));
        let mut found = self.choose_oldest(now, lots, round, boundary);
        let wanted = missing(cohort, &found).unwrap_or_else(|| {
            // Far from what could be expected: look at everyone of that age.
            for (shard, found) in self.shards.iter_mut().zip(&found) {
                shard.undo(round, since, &found.near);
            }
            found = self.each_shard(|shard| {
                let all = Verdict::LowLots(Bounds::NONE);
                let verdict = |s: i64| if s == since { all } else { Verdict::Nobody };
                shard.choose(now, lots, round, verdict)
            });
            share.left
        });
        for (client, selected) in sort_out(found, wanted) {
            self.shards[(client / SHARD) as usize].decide(now, client, (round, since), selected);
        }
        cohort
    }

    /// Marks the `count` next numbers, counted from `first` around.
    fn mark_by_number(&mut self, now: &RoundWorld, first: u32, since: i64, count: u64) {
        self.each_shard(Shard::clear_marks);
        let mut left = count;
        for range in [first..u32::MAX, 0..first] {
            for shard in &mut self.shards {
                left -= shard.mark_low_numbers(now, since, left, &range);
            }
        }
    }

    /// One client online, by the lowest lot of a stream of its own.
    fn force_one(&mut self, now: &RoundWorld, round: u64) -> u64 {
        let lots = Lots::new(self.world.seed, Stream::FORCED, round);
        let lowest = self.each_shard(|shard| shard.lowest_lot(now, &lots));
        let Some((_, client)) = lowest.into_iter().flatten().min() else {
            return 0;
        };
        let shard = &mut self.shards[(client / SHARD) as usize];
        shard.clear_marks();
        shard.mark(client);
        shard.choose(now, &lots, round, |_| Verdict::Marked).selected
    }

    /// The clients that wait since a round: those that were credited in the one before.
    pub(crate) fn members_since(&self, since: i64) -> Vec<u32> {
        let mut members: Vec<u32> =
            self.shards.iter().flat_map(|shard| shard.members_since(since)).collect();
        members.sort_unstable();
        members
    }

    /// How often each client was credited.
    pub(crate) fn selections(&self) -> impl Iterator<Item = u32> {
        let tallies = self.shards.iter().flat_map(|shard| &shard.residents().tallies);
        tallies.map(|tally| tally.selections)
    }
}

/// How many of so many clients are to be chosen.
#[derive(Debug, Clone, Copy)]
struct Share {
    left: u64,
    count: u64,
}
