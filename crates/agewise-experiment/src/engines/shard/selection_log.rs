//! The clients that were credited in the rounds of a block, until their metrics are counted.

use super::clients::ShardClients;
use crate::engines::counters::{CreditSums, Fresh, credit, credit_alike, credit_without_sums};
use crate::engines::round::{RoundMetrics, Weigher};
use agewise_core::Sizes;

/// Credited clients, two bytes each, in the order in which they were taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct SelectionLog {
    members: Vec<u16>,
    takes: Vec<Take>,
    /// Where the present round began.
    begin: usize,
}

/// Members that were taken together.
#[derive(Debug, Clone, Copy)]
struct Take {
    round: u64,
    age: u64,
    end: usize,
}

impl SelectionLog {
    /// Begins a round.
    pub(crate) fn begin(&mut self) {
        self.begin = self.members.len();
    }

    /// Takes members of one age, which `take` adds to the list.
    pub(crate) fn take(&mut self, round: u64, age: u64, take: impl FnOnce(&mut Vec<u16>)) {
        take(&mut self.members);
        let end = self.members.len();
        match self.takes.last_mut() {
            Some(last) if (last.round, last.age) == (round, age) => last.end = end,
            last => {
                if end > last.map_or(0, |last| last.end) {
                    self.takes.push(Take { round, age, end });
                }
            }
        }
    }

    /// Gives the members of the last take back.
    pub(crate) fn undo(&mut self, round: u64, age: u64) -> Vec<u16> {
        match self.takes.pop_if(|take| (take.round, take.age) == (round, age)) {
            Some(_) => self.members.split_off(self.takes.last().map_or(0, |last| last.end)),
            None => Vec::new(),
        }
    }

    /// The clients that were taken in the present round.
    pub(crate) fn present(&self) -> &[u16] {
        &self.members[self.begin..]
    }

    /// The metrics of rounds in order, each of which has the number `number`; nothing is left in the log. `count` adds members
    /// of one age that were taken together.
    pub(crate) fn take_metrics<R>(
        &mut self,
        rounds: &[R],
        number: impl Fn(&R) -> u64,
        mut count: impl FnMut(&R, u64, &[u16], &mut RoundMetrics),
    ) -> Vec<RoundMetrics> {
        let mut takes = self.takes().peekable();
        let metrics = rounds.iter().map(|round| {
            let mut metrics = RoundMetrics::default();
            let is_of_round = |(taken, ..): &(u64, u64, &[u16])| *taken == number(round);
            while let Some((_, age, members)) = takes.next_if(is_of_round) {
                count(round, age, members, &mut metrics);
            }
            metrics
        });
        let metrics = metrics.collect();
        drop(takes);
        self.members.clear();
        self.takes.clear();
        metrics
    }

    /// What was taken, in order: the round, the age, and the members.
    fn takes(&self) -> impl Iterator<Item = (u64, u64, &[u16])> {
        let begins = std::iter::once(0).chain(self.takes.iter().map(|take| take.end));
        let members = |(begin, take): (usize, &Take)| &self.members[begin..take.end];
        begins.zip(&self.takes).map(move |pair| (pair.1.round, pair.1.age, members(pair)))
    }
}

/// Credits members of a shard.
pub(crate) fn credit_members(
    members: &[u16],
    fresh: impl FnMut(u16) -> Fresh,
    weigher: Weigher,
    sizes: &Sizes,
    clients: &mut ShardClients,
) -> CreditSums {
    let first = clients.numbers().start;
    let counters = &mut clients.counters;
    match weigher {
        Weigher::AlikeWithoutSums(weight) => credit_without_sums(counters, members, fresh, weight),
        Weigher::Alike(weight) => credit_alike(counters, members, fresh, weight),
        Weigher::BySize(total) => {
            let weight = |member: u16| sizes.of(first + u32::from(member)) / total;
            credit(counters, members, fresh, weight)
        }
    }
}
