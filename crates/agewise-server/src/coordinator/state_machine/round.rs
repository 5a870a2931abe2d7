//! A round as a typed sequence of phases: joining, training, aggregating. What a phase does not allow does not compile.

use crate::config::{CoordinatorConfig, RoundParams};
use crate::coordinator::storage::ledger::{Outcome, ReportRow, RoundRow};
use crate::protocol::ParticipationRule;
use agewise_core::Pick;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clients may join; those that have joined may train and report.
#[derive(Debug)]
pub(crate) struct Joining;
/// The cohort is complete; its reports are awaited.
#[derive(Debug)]
pub(crate) struct Training;
/// Nothing is awaited any more; reports become a model.
#[derive(Debug)]
pub(crate) struct Aggregating;

/// A client in the round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) age: u64,
    pub(crate) draws: u32,
    /// Whether it has said that it comes.
    pub(crate) joined: bool,
    /// When that was; not known of a member that had joined before a start.
    pub(crate) joined_at: Option<Instant>,
    /// Its report, if it was accepted.
    pub(crate) report: Option<ReportRow>,
    /// Why its update is left out, although it is credited: damaged since, or the client was revoked.
    pub(crate) excluded: Option<&'static str>,
    /// Whether an update of it was refused in this round, so that it is not waited for. Another one may still come.
    pub(crate) refused: bool,
    /// How often it has fetched the model.
    pub(crate) fetches: u32,
}

impl Member {
    /// A client that is wanted and has not come yet.
    pub(crate) fn invited(age: u64, draws: u32) -> Self {
        Self {
            age,
            draws,
            joined: false,
            joined_at: None,
            report: None,
            excluded: None,
            refused: false,
            fetches: 0,
        }
    }
}

/// A round under way: what it has in every phase.
#[derive(Debug)]
pub(crate) struct RoundState {
    pub(crate) row: RoundRow,
    pub(crate) rule: Arc<ParticipationRule>,
    /// By number: also the order in which updates are summed up.
    pub(crate) members: BTreeMap<u32, Member>,
    pub(crate) announced: Instant,
    pub(crate) join_until: Instant,
    pub(crate) report_until: Instant,
    /// What follows from failures, as the round was announced: whether they are counted, and after how many a client is suspended.
    pub(crate) counts_failures: bool,
    pub(crate) suspend_after: u64,
}

impl RoundState {
    /// A round that is announced, now or again, with these clients in it; announced at first under these parameters.
    pub(crate) fn begin(
        row: RoundRow,
        rule: Arc<ParticipationRule>,
        members: BTreeMap<u32, Member>,
        now: Instant,
        windows: RoundWindows,
        params: &RoundParams,
    ) -> Self {
        let RoundWindows { join, report } = windows;
        let (join_until, report_until) = (now + join, now + report);
        Self {
            row,
            rule,
            members,
            announced: now,
            join_until,
            report_until,
            counts_failures: params.counts_failures(),
            suspend_after: params.suspend_after,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.row.round
    }

    /// How many have joined.
    pub(crate) fn selected(&self) -> usize {
        self.members.values().filter(|member| member.joined).count()
    }

    /// How many reports were accepted.
    pub(crate) fn reported(&self) -> usize {
        self.members.values().filter(|member| member.report.is_some()).count()
    }

    /// Whether the coordinator counts on a client.
    pub(crate) fn awaits(&self, client: u32) -> bool {
        self.members.get(&client).is_some_and(|member| member.report.is_none())
    }
}

/// How long the phases last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundWindows {
    pub(crate) join: Duration,
    pub(crate) report: Duration,
}

impl RoundWindows {
    pub(crate) fn of(config: &CoordinatorConfig) -> Self {
        Self { join: config.join_window(), report: config.report_window() }
    }
}

/// A round in one of its phases.
#[derive(Debug)]
pub(crate) struct ActiveRound<P> {
    round: RoundState,
    phase: PhantomData<P>,
}

impl<P> Deref for ActiveRound<P> {
    type Target = RoundState;

    fn deref(&self) -> &RoundState {
        &self.round
    }
}

impl<P> DerefMut for ActiveRound<P> {
    fn deref_mut(&mut self) -> &mut RoundState {
        &mut self.round
    }
}

impl ActiveRound<Joining> {
    /// A round that clients may join.
    pub(crate) fn open(round: RoundState) -> Self {
        Self { round, phase: PhantomData }
    }

    /// Takes a client in. Gives how often it was drawn.
    pub(crate) fn join(&mut self, client: u32, age: u64, now: Instant) -> u32 {
        let member = self.members.entry(client).or_insert_with(|| Member::invited(age, 1));
        member.joined = true;
        member.joined_at = Some(now);
        member.draws
    }

    /// Invites a client, as no other has come; everyone gets the time of a round again.
    pub(crate) fn invite(&mut self, client: u32, age: u64, now: Instant, windows: RoundWindows) {
        self.members.insert(client, Member::invited(age, 1));
        self.row.forced = true;
        self.join_until = now + windows.join;
        self.report_until = now + windows.report;
    }

    /// Whether every client that was invited has come, or is gone.
    pub(crate) fn everyone_came(&self, is_gone: impl Fn(u32) -> bool) -> bool {
        let has_come = |(&client, member): (&u32, &Member)| member.joined || is_gone(client);
        !self.members.is_empty() && self.members.iter().all(has_come)
    }

    /// No other client may join.
    pub(crate) fn close(self) -> ActiveRound<Training> {
        ActiveRound::closed(self.round)
    }
}

impl ActiveRound<Training> {
    /// A round whose cohort is complete.
    pub(crate) fn closed(round: RoundState) -> Self {
        Self { round, phase: PhantomData }
    }

    /// Whether no report is awaited any more: each member has reported, was refused, or is gone.
    pub(crate) fn is_settled(&self, is_gone: impl Fn(u32) -> bool) -> bool {
        self.awaited(is_gone).next().is_none()
    }

    /// The members whose reports may still come.
    pub(crate) fn awaited(
        &self,
        is_gone: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = (u32, &Member)> {
        let members = self.members.iter().map(|(&client, member)| (client, member));
        members.filter(move |(client, member)| {
            member.joined && member.report.is_none() && !member.refused && !is_gone(*client)
        })
    }

    /// No report counts any more.
    pub(crate) fn close(self) -> ActiveRound<Aggregating> {
        ActiveRound { round: self.round, phase: PhantomData }
    }
}

impl ActiveRound<Aggregating> {
    /// What became of the members that have not reported; `has_goal` says that the round has ended because enough others have.
    pub(crate) fn unreported(
        &self,
        has_goal: bool,
        is_gone: impl Fn(u32) -> bool,
    ) -> Vec<(u32, Outcome)> {
        let outcome = |client, member: &Member| match member {
            Member { refused: true, .. } => Outcome::Refused,
            _ if is_gone(client) => Outcome::Gone,
            Member { joined: true, .. } if has_goal => Outcome::Surplus,
            _ => Outcome::Missing,
        };
        let open = self.members.iter().filter(|(_, member)| member.report.is_none());
        open.map(|(&client, member)| (client, outcome(client, member))).collect()
    }

    /// The cohort as the core weighs it.
    pub(crate) fn picks(&self) -> Vec<Pick> {
        let joined = self.members.iter().filter(|(_, member)| member.joined);
        joined.map(|(&client, member)| Pick { client, draws: member.draws }).collect()
    }
}
