//! Policies that take the first m available clients by some order.

use crate::random::{Ranks, Stream};
use crate::round::{Pick, Round};
use std::cmp::Reverse;

/// An order of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// In a random order, by [`Ranks`].
    Random,
    /// Older clients first, then by draw.
    OldestThenDraws,
    /// Older clients first, then by number, counted from [`Ranking::first_number`] on.
    OldestThenNumbers,
}

impl Ranking {
    /// The number from which a round counts: where the last one would have stopped if everyone had been
    /// there. Counting from 0 would favour low numbers whenever a cohort wraps around.
    pub fn first_number(clients: u32, cohort: u32, round: u64) -> u32 {
        let clients = u64::from(clients);
        (round % clients * u64::from(cohort) % clients) as u32
    }

    /// The first m available clients of a round, in increasing order of client.
    pub(crate) fn select(self, round: &Round<'_>) -> Vec<Pick> {
        let draws = round.draws(Stream::DRAW);
        let draw = |client: u32| draws.of(u64::from(client));
        let age = |client: u32| Reverse(round.ages().of(client));
        match self {
            Self::Random => {
                let ranks = Ranks::new(round.seed(), round.number());
                let mut block = (0, ranks.coarse(0));
                first_by(round, |client| {
                    let client = u64::from(client);
                    if client / Ranks::BLOCK != block.0 {
                        block = (client / Ranks::BLOCK, ranks.coarse(client / Ranks::BLOCK));
                    }
                    ranks.in_block(&block.1, client)
                })
            }
            Self::OldestThenDraws => first_by(round, |client| (age(client), draw(client))),
            Self::OldestThenNumbers => {
                let (clients, cohort) = (round.setting().clients(), round.setting().cohort());
                let first = Self::first_number(clients, cohort, round.number());
                // Wrapping below the first number sends those behind all others.
                first_by(round, |client| (age(client), client.wrapping_sub(first)))
            }
        }
    }
}

/// The m available clients with the smallest keys (then numbers), in increasing order of client.
fn first_by<K: Ord>(round: &Round<'_>, mut key: impl FnMut(u32) -> K) -> Vec<Pick> {
    let mut ranked: Vec<(K, u32)> = round.available().map(|client| (key(client), client)).collect();
    let count = round.setting().cohort() as usize;
    if count < ranked.len() {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    let mut picks: Vec<Pick> = ranked.into_iter().map(|(_, client)| Pick::once(client)).collect();
    picks.sort_unstable();
    picks
}
