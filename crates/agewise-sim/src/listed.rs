//! The engine for policies that follow age: clients stay in order of age, and a round costs what the clients
//! cost that can be due. Weights are equal or by data size; unbiased weights need the policy itself, and so the
//! other engine.

use crate::played::Played;
use crate::shard::{SHARD, Shard, Verdict};
use crate::tally::{self, CreditSums};
use crate::world::{RoundWorld, World};
use agewise_core::metrics::{Intervals, WeightMoments, WindowTally};
use agewise_core::{Chance, EmptyCohort, Laws, Lots, Plan, Ranking, Setting, Stream, Weighting};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// How clients are chosen; owned, because a calibrated law changes from round to round.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Laws(Laws),
    Ranked(Ranking),
}

impl Rule {
    /// The rule of a plan, if it follows age.
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
    equal_sizes: bool,
    world: World,
    weighting: Weighting,
    warmup: u64,
    /// The number of clients at the beginning of the run.
    first_clients: u32,
    shards: Vec<Shard>,
    weights: WeightMoments,
    windows: Vec<WindowTally>,
}

impl Listed {
    /// A population with these first ages. `setting` has the sizes of all clients that will ever join.
    pub(crate) fn new(
        setting: Setting,
        world: World,
        weighting: Weighting,
        warmup: u64,
        first_ages: &[u64],
    ) -> Self {
        let mut shards: Vec<Shard> = first_ages
            .par_chunks(SHARD as usize)
            .enumerate()
            .map(|(index, ages)| Shard::new(index as u32 * SHARD, ages))
            .collect();
        if world.at(0).has_memory() {
            shards.par_iter_mut().for_each(|shard| shard.start_memory(|c| world.starts_online(c)));
        }
        let clients = u64::from(setting.clients());
        Self {
            first_clients: first_ages.len() as u32,
            equal_sizes: setting.sizes().are_equal(),
            setting,
            world,
            weighting,
            warmup,
            shards,
            weights: WeightMoments::new(clients),
            windows: tally::windows(clients),
        }
    }

    /// Plays one round by a rule.
    pub(crate) fn play(&mut self, round: u64, rule: &Rule) -> Played {
        let now = self.world.at(round);
        self.join(round);
        self.each_shard(|shard| shard.begin(&now));
        let lots = Lots::new(self.world.seed, Stream::LOT, round);
        let mut selected = match rule {
            Rule::Laws(laws) => self.choose_by_law(&now, &lots, round, laws),
            Rule::Ranked(ranking) => self.choose_by_rank(&now, &lots, round, *ranking),
        };
        let mut forced = false;
        if selected == 0 && self.setting.empty_cohort() == EmptyCohort::ForceOne {
            selected = self.force_one(&now, round);
            forced = selected > 0;
        }
        let sums = self.credit(round);
        Played { selected, reported: sums.clients, forced, total_weight: sums.weight }
    }

    /// Clients that joined since the last round come in; whole new shards where the last one is full.
    fn join(&mut self, round: u64) {
        let total = self.world.joined(self.first_clients, round).min(self.setting.clients());
        let have = self
            .shards
            .last()
            .map_or(0, |shard| (self.shards.len() as u32 - 1) * SHARD + shard.clients());
        if total <= have {
            return;
        }
        while (self.shards.len() as u32) * SHARD < total {
            let mut shard = Shard::new(self.shards.len() as u32 * SHARD, &[]);
            if self.world.at(0).has_memory() {
                shard.start_memory(|_| true);
            }
            self.shards.push(shard);
        }
        let world = self.world;
        for (index, shard) in (0..).zip(&mut self.shards) {
            let inside = total.saturating_sub(index * SHARD).min(SHARD);
            shard.join(inside, round, |client| world.starts_online(client));
        }
    }

    fn each_shard(&mut self, work: impl Fn(&mut Shard) + Sync + Send) {
        self.shards.par_iter_mut().for_each(work);
    }

    fn choose_by_law(&mut self, now: &RoundWorld, lots: &Lots, round: u64, laws: &Laws) -> u64 {
        let verdict = |since: i64| match laws.common() {
            None => Verdict::OwnLaw(laws),
            Some(law) => match Chance::new(law.probability((round as i64 - since) as u64)) {
                Chance::NEVER => Verdict::Nobody,
                Chance::CERTAIN => Verdict::Everyone,
                chance => Verdict::Chance(chance),
            },
        };
        let shards = self.shards.par_iter_mut();
        shards.map(|shard| shard.choose(now, lots, round, verdict)).sum()
    }

    fn choose_by_rank(
        &mut self,
        now: &RoundWorld,
        lots: &Lots,
        round: u64,
        ranking: Ranking,
    ) -> u64 {
        let censuses: Vec<Vec<(i64, u64)>> =
            self.shards.par_iter().map(|shard| shard.census(now)).collect();
        let mut online: BTreeMap<i64, u64> = BTreeMap::new();
        for &(since, count) in censuses.iter().flatten() {
            // Without regard to age, everyone is of one group.
            let key = if ranking == Ranking::Lots { 0 } else { since };
            *online.entry(key).or_default() += count;
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
        let lots_only = ranking == Ranking::Lots;
        if let Some((since, count)) = last {
            if ranking == Ranking::OldestThenNumbers {
                let first = Ranking::first_number(&self.setting, round);
                self.mark_by_number(now, first, since, left);
            } else {
                self.mark_by_lot(now, lots, left, count, |s| lots_only || s == since);
            }
        }
        let verdict = |since: i64| match last {
            None => Verdict::Everyone,
            Some(_) if lots_only => Verdict::Marked,
            Some((boundary, _)) => match since.cmp(&boundary) {
                std::cmp::Ordering::Less => Verdict::Everyone,
                std::cmp::Ordering::Equal => Verdict::Marked,
                std::cmp::Ordering::Greater => Verdict::Nobody,
            },
        };
        let shards = self.shards.par_iter_mut();
        shards.map(|shard| shard.choose(now, lots, round, verdict)).sum()
    }

    /// Marks the `count` lowest lots of `among` clients. The lots are uniform, so the threshold is known
    /// nearly: those surely under it are marked at once, and only the few near it are sorted.
    fn mark_by_lot(
        &mut self,
        now: &RoundWorld,
        lots: &Lots,
        count: u64,
        among: u64,
        concerns: impl Fn(i64) -> bool + Sync,
    ) {
        let share = count as f64 / among as f64;
        let margin = 8.0 * (share * (1.0 - share) / among as f64).sqrt() + 16.0 / among as f64;
        let scale = |share: f64| (share.clamp(0.0, 1.0) * 2f64.powi(64)) as u64;
        let mut guess = (scale(share - margin), scale(share + margin));
        loop {
            let found: Vec<(u64, Vec<(u64, u32)>)> = self
                .shards
                .par_iter_mut()
                .map(|shard| shard.mark_low_lots(now, lots, &concerns, guess.0, guess.1))
                .collect();
            let sure: u64 = found.iter().map(|(sure, _)| sure).sum();
            let mut near: Vec<(u64, u32)> = found.into_iter().flat_map(|(_, near)| near).collect();
            let wanted = count.checked_sub(sure).map(|wanted| wanted as usize);
            if let Some(wanted) = wanted.filter(|&wanted| wanted <= near.len()) {
                near.sort_unstable();
                for &(_, client) in &near[..wanted] {
                    self.shards[(client / SHARD) as usize].mark(client);
                }
                return;
            }
            // Eight standard deviations off: look at everyone.
            guess = (0, u64::MAX);
        }
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
        let lowest = self.shards.par_iter().filter_map(|shard| shard.lowest_lot(now, &lots)).min();
        let Some((_, client)) = lowest else {
            return 0;
        };
        let shard = &mut self.shards[(client / SHARD) as usize];
        shard.mark_low_lots(now, &lots, |_| false, 0, 0);
        shard.mark(client);
        shard.choose(now, &lots, round, |_| Verdict::Marked)
    }

    fn credit(&mut self, round: u64) -> CreditSums {
        let weighting = self.weighting;
        let members: u64 = self.shards.iter().map(Shard::credited_count).sum();
        let warmup = self.warmup;
        let sums: Vec<CreditSums> = if weighting != Weighting::DataSize || self.equal_sizes {
            let same = 1.0 / members as f64;
            self.shards.par_iter_mut().map(|s| s.credit(round, warmup, |_| same)).collect()
        } else {
            let sizes = self.setting.sizes();
            // Summed in the order of shards, so that the sum does not depend on threads.
            let totals: Vec<f64> = (self.shards.par_iter())
                .map(|shard| shard.credited().map(|client| sizes.of(client)).sum())
                .collect();
            let total: f64 = totals.iter().sum();
            let weight = |client| weighting.weight(sizes.of(client), members as usize, total);
            self.shards.par_iter_mut().map(|s| s.credit(round, warmup, weight)).collect()
        };
        let mut total = CreditSums::default();
        for sum in &sums {
            total.merge(sum);
            self.weights.record_many(sum.squares, sum.growth);
        }
        if let Some(recorded) = round.checked_sub(self.warmup) {
            total.record(&mut self.windows);
            for window in &mut self.windows {
                window.end_round(recorded);
            }
        }
        total.clients = members;
        total
    }

    /// How many clients wait, by the round since which they do.
    pub(crate) fn waiting(&self) -> BTreeMap<i64, u64> {
        let mut waiting = BTreeMap::new();
        for (since, count) in self.shards.iter().flat_map(Shard::waiting) {
            *waiting.entry(since).or_default() += count;
        }
        waiting
    }

    /// The clients that wait since a round: those that were credited in the one before.
    pub(crate) fn members_since(&self, since: i64) -> Vec<u32> {
        let mut members: Vec<u32> =
            self.shards.iter().flat_map(|shard| shard.members_since(since)).collect();
        members.sort_unstable();
        members
    }

    /// All intervals.
    pub(crate) fn intervals(&self) -> Intervals {
        let mut intervals = Intervals::default();
        for shard in &self.shards {
            intervals.merge(&shard.intervals);
        }
        intervals
    }

    /// How often each client was credited.
    pub(crate) fn selections(&self) -> impl Iterator<Item = u32> {
        self.shards.iter().flat_map(|shard| shard.tallies().iter().map(|tally| tally.selections))
    }

    /// Moments of the weights.
    pub(crate) fn weights(&self) -> &WeightMoments {
        &self.weights
    }

    /// The windows of all lengths.
    pub(crate) fn windows(&self) -> &[WindowTally] {
        &self.windows
    }
}
