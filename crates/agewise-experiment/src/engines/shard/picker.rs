//! Choosing from a list: the inner loops of a round.

use super::clients::ShardClients;
use super::lowest_draws::{Bounds, ShardSelection};
use crate::world::RoundWorld;
use agewise_core::{Draw, Draws};

/// What becomes of a member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Stays,
    Credited,
    /// Taken out, but not yet credited.
    Open,
}

/// The clients that are there in a round, with their draws.
pub(super) struct Picker<'a> {
    pub(super) world: &'a RoundWorld,
    pub(super) draws: &'a Draws,
    pub(super) clients: &'a ShardClients,
}

impl Picker<'_> {
    /// Whether everyone is there, and reports.
    pub(super) fn is_calm(&self) -> bool {
        self.world.everyone_is_online() && self.world.all_report()
    }

    #[inline]
    pub(super) fn draw(&self, member: u16) -> Draw {
        self.draws.of(u64::from(self.clients.number(member)))
    }

    /// What becomes of a member that is chosen if it can be asked.
    fn outcome(&self, member: u16, selected: &mut u64, failed: &mut Vec<u16>) -> Outcome {
        if !self.clients.can_be_asked(self.world, member) {
            return Outcome::Stays;
        }
        *selected += 1;
        if self.world.drops_out(self.clients.number(member)) {
            failed.push(member);
            Outcome::Stays
        } else {
            Outcome::Credited
        }
    }

    /// Takes out those that win, and are there, and report.
    pub(super) fn pick(
        &self,
        members: &mut Vec<u16>,
        taken: &mut Vec<u16>,
        found: &mut ShardSelection,
        wins: impl Fn(u16) -> bool,
    ) {
        if self.is_calm() {
            let before = members.len();
            split(
                members,
                taken,
                |member| if wins(member) { Outcome::Credited } else { Outcome::Stays },
            );
            found.selected += (before - members.len()) as u64;
        } else {
            split(members, taken, |member| {
                if wins(member) {
                    self.outcome(member, &mut found.selected, &mut found.failed)
                } else {
                    Outcome::Stays
                }
            });
        }
    }

    /// Takes out those whose draws are surely low enough, and those whose draws may be.
    pub(super) fn pick_low_draws(
        &self,
        members: &mut Vec<u16>,
        taken: &mut Vec<u16>,
        found: &mut ShardSelection,
        bounds: Bounds,
    ) {
        let ShardSelection { selected, near, failed } = found;
        let mut open = |draw: u64, member: u16| {
            near.push((draw, self.clients.number(member)));
            Outcome::Open
        };
        if self.is_calm() {
            let before = taken.len();
            // The few between the bounds first: what is left then is a choice of two without a branch.
            split(members, taken, |member| match self.draw(member).bits() {
                draw if bounds.are_around(draw) => open(draw, member),
                draw if draw < bounds.sure => Outcome::Credited,
                _ => Outcome::Stays,
            });
            *selected += (taken.len() - before) as u64;
        } else {
            split(members, taken, |member| match self.draw(member).bits() {
                draw if draw > bounds.possible => Outcome::Stays,
                draw if draw < bounds.sure => self.outcome(member, selected, failed),
                draw if self.clients.can_be_asked(self.world, member) => open(draw, member),
                _ => Outcome::Stays,
            });
        }
    }
}

/// Moves the credited of `members` to the end of `taken`, and leaves those that stay in their order.
fn split(members: &mut Vec<u16>, taken: &mut Vec<u16>, mut outcome: impl FnMut(u16) -> Outcome) {
    const BATCH: usize = 256;
    let mut left = 0;
    // Those that stay in the first half, the credited in the second.
    let mut sorted = [0; 2 * BATCH];
    for begin in (0..members.len()).step_by(BATCH) {
        let end = (begin + BATCH).min(members.len());
        let (mut stayers, mut credits) = (0, BATCH);
        for &member in &members[begin..end] {
            let outcome = outcome(member);
            // No branch that could be mispredicted: a place is overwritten unless its count goes on. The
            // remainder is for the compiler, which then need not check the bounds.
            let place = if outcome == Outcome::Credited { credits } else { stayers };
            sorted[place % (2 * BATCH)] = member;
            credits += usize::from(outcome == Outcome::Credited);
            stayers += usize::from(outcome == Outcome::Stays);
        }
        taken.extend_from_slice(&sorted[BATCH..credits]);
        members[left..left + stayers].copy_from_slice(&sorted[..stayers]);
        left += stayers;
    }
    members.truncate(left);
}
