//! A round as a typed sequence of phases: joining, training, aggregating. What a phase does not allow does not compile.

use super::ledger::{JoinRow, Outcome, ReportRow, RoundRow};
use crate::rule::Rule;
use agewise_core::Pick;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Clients may join; who has joined may train and report.
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
    /// Its report, if it was accepted.
    pub(crate) report: Option<ReportRow>,
    /// Whether its update was found to be damaged since: it is credited, and left out.
    pub(crate) damaged: bool,
}

impl Member {
    /// A client that is wanted and has not come yet.
    pub(crate) fn called(age: u64, draws: u32) -> Self {
        Self { age, draws, joined: false, report: None, damaged: false }
    }
}

/// A round in one of its phases.
#[derive(Debug)]
pub(crate) struct Round<Phase> {
    pub(crate) row: RoundRow,
    pub(crate) rule: Rule,
    /// By number: also the order in which updates are summed up.
    pub(crate) members: BTreeMap<u32, Member>,
    pub(crate) announced: Instant,
    join_until: Instant,
    report_until: Instant,
    phase: PhantomData<Phase>,
}

/// How long the phases last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) join: Duration,
    pub(crate) report: Duration,
}

impl Round<Joining> {
    /// Announces a round, in which these clients are wanted.
    pub(crate) fn announce(
        row: RoundRow,
        rule: Rule,
        called: impl Iterator<Item = (u32, Member)>,
        now: Instant,
        windows: Windows,
    ) -> Self {
        Self {
            row,
            rule,
            members: called.collect(),
            announced: now,
            join_until: now + windows.join,
            report_until: now + windows.report,
            phase: PhantomData,
        }
    }

    /// Takes a client in.
    pub(crate) fn join(&mut self, client: u32, age: u64) -> u32 {
        let fresh = Member::called(age, 1);
        let member = self.members.entry(client).or_insert(fresh);
        member.joined = true;
        member.draws
    }

    /// Calls a client, as nobody has come; everyone gets the time of a round again.
    pub(crate) fn call(&mut self, client: u32, age: u64, now: Instant, windows: Windows) {
        self.members.insert(client, Member::called(age, 1));
        self.row.forced = true;
        self.join_until = now + windows.join;
        self.report_until = now + windows.report;
    }

    /// Whether everyone who was called has come.
    pub(crate) fn everyone_came(&self) -> bool {
        !self.members.is_empty() && self.members.values().all(|member| member.joined)
    }

    pub(crate) fn join_until(&self) -> Instant {
        self.join_until
    }

    /// Nobody else may join.
    pub(crate) fn close(self) -> Round<Training> {
        self.turn()
    }
}

impl Round<Training> {
    /// Whether every report that is awaited has come.
    pub(crate) fn everyone_reported(&self) -> bool {
        self.members.values().all(|member| !member.joined || member.report.is_some())
    }

    /// No report counts any more.
    pub(crate) fn close(self) -> Round<Aggregating> {
        self.turn()
    }
}

impl Round<Aggregating> {
    /// The cohort as the core weighs it.
    pub(crate) fn picks(&self) -> Vec<Pick> {
        let joined = self.members.iter().filter(|(_, member)| member.joined);
        joined.map(|(&client, member)| Pick { client, draws: member.draws }).collect()
    }
}

impl<Phase> Round<Phase> {
    /// A round that was under way when the coordinator stopped: everyone gets its time again.
    pub(crate) fn resume(
        row: RoundRow,
        rule: Rule,
        joins: Vec<JoinRow>,
        damaged: &[u32],
        now: Instant,
        windows: Windows,
    ) -> Self {
        let inside = [Outcome::Called, Outcome::Selected, Outcome::Reported];
        let members = joins.into_iter().filter(|join| inside.contains(&join.outcome));
        let members = members.map(|join| {
            let JoinRow { client, age, draws, outcome, report } = join;
            let joined = outcome != Outcome::Called;
            (client, Member { age, draws, joined, report, damaged: damaged.contains(&client) })
        });
        Self {
            row,
            rule,
            members: members.collect(),
            announced: now,
            join_until: now + windows.join,
            report_until: now + windows.report,
            phase: PhantomData,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.row.round
    }

    pub(crate) fn report_until(&self) -> Instant {
        self.report_until
    }

    /// Who has joined.
    pub(crate) fn selected(&self) -> usize {
        self.members.values().filter(|member| member.joined).count()
    }

    /// Whose report was accepted.
    pub(crate) fn reported(&self) -> usize {
        self.members.values().filter(|member| member.report.is_some()).count()
    }

    fn turn<Next>(self) -> Round<Next> {
        let Self { row, rule, members, announced, join_until, report_until, phase: _ } = self;
        Round { row, rule, members, announced, join_until, report_until, phase: PhantomData }
    }
}
