//! One round of federated learning, as in FedAvg: the cohort trains in parallel, and its updates become the next global
//! model.
//!
//! Clients are trained by threads in the order of the cohort, while the aggregator reads their updates. The mean takes them
//! one after the other and gives each buffer back, so that memory grows with the threads and not with the cohort; training
//! runs ahead of it by two clients for each thread. A rule that needs all updates at once keeps them all. Results do not
//! depend on the number of threads.

use crate::aggregation::{
    Aggregation, Aggregator, AggregatorState, Contribution, Rejected, UpdateSource, Verdict,
    read_part,
};
use crate::local::LocalReport;
use crate::sketch::Sketcher;
use crate::task::{PartitionKey, Task, TrainJob};
use crate::threads::Threads;
use agewise_core::{Error, Report, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of buffers for rules that sort the values of all updates; results do not depend on it.
const MEMORY: usize = 1 << 26;

/// Where a client began whose update comes in a later round than it was asked in, and how that update counts.
#[derive(Debug, Clone, Copy)]
pub struct EarlierStart<'a> {
    /// The round in which it was asked: its batches and its learning rate are those of that round.
    pub round: u64,
    /// The model that it was sent.
    pub model: &'a [f32],
    /// How its update counts.
    pub rule: StaleRule,
}

/// How an update counts that began with an earlier model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StaleRule {
    /// The present model, moved by this share of what the client changed of its own (FedBuff).
    Step(f32),
    /// The present model, moved by this share of the way to that of the client (FedAsync).
    Mix(f32),
}

impl EarlierStart<'_> {
    /// Makes the update one of the present model.
    fn rebase(&self, global: &[f32], update: &mut [f32]) {
        let pairs = update.iter_mut().zip(global).zip(self.model);
        match self.rule {
            StaleRule::Step(share) => {
                pairs.for_each(|((value, &now), &begin)| *value = now + share * (*value - begin));
            }
            StaleRule::Mix(share) => {
                pairs.for_each(|((value, &now), _)| *value = now + share * (*value - now));
            }
        }
    }
}

/// What a round depends on beside the cohort.
#[derive(Debug, Clone, Copy)]
pub struct RoundPlan<'a> {
    /// How the data are divided.
    pub key: PartitionKey,
    /// The round, from 0.
    pub round: u64,
    /// What makes sketches of updates, if there shall be any.
    pub sketcher: Option<&'a Sketcher>,
    /// For each member where it began, if members began in earlier rounds.
    pub starts: Option<&'a [EarlierStart<'a>]>,
}

impl RoundPlan<'_> {
    /// A plan without sketches.
    pub fn new(key: PartitionKey, round: u64) -> Self {
        Self { key, round, sketcher: None, starts: None }
    }
}

/// What came of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundReport {
    /// The clients of the cohort.
    pub clients: Vec<u32>,
    /// For each of them what it reported, or why its update was not taken.
    pub members: Vec<std::result::Result<LocalReport, Rejected>>,
    /// For each of them a sketch of its update, if it was asked for and taken.
    pub sketches: Vec<Option<Vec<f32>>>,
}

impl RoundReport {
    /// The reports of those whose update was taken, as a selector takes them.
    pub fn accepted(&self) -> Vec<Report<'_>> {
        // Nothing is as bad as what is not finite.
        let finite = |value: f64| Some(if value.is_finite() { value as f32 } else { f32::MAX });
        let mut accepted = Vec::with_capacity(self.members.len());
        for ((&client, member), sketch) in
            self.clients.iter().zip(&self.members).zip(&self.sketches)
        {
            if let Ok(report) = member {
                accepted.push(Report {
                    loss: finite(report.loss),
                    root_mean_square: finite(report.mean_square.sqrt()),
                    sketch: sketch.as_deref(),
                    ..Report::plain(client)
                });
            }
        }
        accepted
    }
}

/// A global model with the aggregator that moves it from round to round.
#[derive(Debug)]
pub struct RoundEngine {
    global: Vec<f32>,
    /// The next model while it is made: clients begin with the present one until the round is over.
    next: Vec<f32>,
    aggregator: Box<dyn Aggregator>,
    /// For updates, from round to round.
    buffers: Vec<Vec<f32>>,
}

impl RoundEngine {
    /// Begins with a model.
    pub fn new(global: Vec<f32>, aggregation: &Aggregation) -> Result<Self> {
        let aggregator = aggregation.build(global.len())?;
        Ok(Self { global, next: Vec::new(), aggregator, buffers: Vec::new() })
    }

    /// Goes on with a model and what the aggregator remembered.
    pub fn resume(
        global: Vec<f32>,
        aggregation: &Aggregation,
        state: AggregatorState,
    ) -> Result<Self> {
        let mut engine = Self::new(global, aggregation)?;
        engine.aggregator.load_state(state)?;
        Ok(engine)
    }

    /// The global model.
    pub fn global(&self) -> &[f32] {
        &self.global
    }

    /// The aggregator with what it remembers.
    pub fn aggregator(&self) -> &dyn Aggregator {
        &*self.aggregator
    }

    /// Plays a round. An update that cannot be taken is left out and reported; if none can, the model stays. A member that is
    /// missing is not trained.
    pub fn round(
        &mut self,
        task: &dyn Task,
        plan: RoundPlan<'_>,
        cohort: &[Contribution],
        threads: Threads,
    ) -> Result<RoundReport> {
        self.next.clone_from(&self.global);
        let training = CohortTraining {
            task,
            plan,
            cohort,
            global: &self.global,
            ahead: 2 * threads.count(),
            progress: Mutex::new(Progress::new(cohort.len(), std::mem::take(&mut self.buffers))),
            changed: Condvar::new(),
        };
        // One thread does all by itself: it trains a client when the aggregator asks for its update.
        let trainers = if threads == Threads::ONE { 0 } else { threads.count().min(cohort.len()) };
        let (aggregator, next) = (&mut self.aggregator, &mut self.next);
        let verdicts = std::thread::scope(|scope| {
            for _ in 0..trainers {
                scope.spawn(|| training.train_all());
            }
            let mut updates = TrainedUpdates::new(&training, trainers == 0);
            let verdicts = aggregator.aggregate(cohort, &mut updates, MEMORY, next)?;
            // Members that it did not ask for are trained too: reports do not depend on the number of threads.
            training.want(usize::MAX);
            training.train_all();
            Ok(verdicts)
        });
        let progress = training.progress.into_inner();
        self.buffers = progress.free;
        self.buffers.extend(progress.updates.into_iter().flatten());
        let verdicts: Vec<Verdict> = verdicts?;
        if verdicts.len() != cohort.len() {
            let expected = format!("one for each of the {} members of the cohort", cohort.len());
            return Err(Error::new("verdicts of the aggregation", verdicts.len(), expected));
        }
        if verdicts.iter().any(std::result::Result::is_ok) {
            std::mem::swap(&mut self.global, &mut self.next);
        }
        let clients: Vec<u32> = cohort.iter().map(|member| member.client).collect();
        let trained = verdicts.into_iter().zip(progress.reports).zip(&clients);
        let member = |((verdict, report), &client): ((_, Option<Result<LocalReport>>), &u32)| {
            let unread = || Error::new("update", "none", "an update that is taken to be there");
            let report = report.unwrap_or_else(|| Err(unread()));
            let report = report.map_err(|error| Rejected { client, why: error.to_string() });
            std::result::Result::and(verdict, report)
        };
        let members: Vec<_> = trained.map(member).collect();
        let mut sketches = progress.sketches;
        for (sketch, member) in sketches.iter_mut().zip(&members) {
            sketch.take_if(|_| member.is_err());
        }
        Ok(RoundReport { clients, members, sketches })
    }
}

/// A cohort on its way: shared by the threads that train it and the one that aggregates.
struct CohortTraining<'a> {
    task: &'a dyn Task,
    plan: RoundPlan<'a>,
    cohort: &'a [Contribution],
    global: &'a [f32],
    /// How many members may be trained before their update is wanted.
    ahead: usize,
    progress: Mutex<Progress>,
    changed: Condvar,
}

struct Progress {
    /// The next member to be trained.
    next: usize,
    /// The member whose update is wanted now.
    wanted: usize,
    /// The updates that are there and were not asked for yet.
    updates: Vec<Option<Vec<f32>>>,
    reports: Vec<Option<Result<LocalReport>>>,
    sketches: Vec<Option<Vec<f32>>>,
    free: Vec<Vec<f32>>,
}

impl Progress {
    fn new(members: usize, free: Vec<Vec<f32>>) -> Self {
        let (updates, sketches) = (vec![None; members], vec![None; members]);
        Self { next: 0, wanted: 0, updates, reports: vec![None; members], sketches, free }
    }
}

impl CohortTraining<'_> {
    /// Trains one member after the other, until none is left.
    fn train_all(&self) {
        while let Some((member, buffer)) = self.take() {
            self.train(member, buffer);
        }
    }

    /// The next member to be trained, with a buffer. Waits where training is far ahead of the aggregator; the member that
    /// it wants never waits.
    fn take(&self) -> Option<(usize, Vec<f32>)> {
        let mut progress = self.progress.lock();
        let rest = self.cohort.iter().enumerate().skip(progress.next);
        let (member, _) = rest.into_iter().find(|(_, member)| member.missing.is_none())?;
        progress.next = member + 1;
        while member >= progress.wanted.saturating_add(self.ahead) {
            self.changed.wait(&mut progress);
        }
        let buffer = progress.free.pop().unwrap_or_default();
        Some((member, buffer))
    }

    fn train(&self, member: usize, mut update: Vec<f32>) {
        let RoundPlan { key, round, sketcher, starts } = self.plan;
        let start = starts.and_then(|starts| starts.get(member));
        let (model, round) = start.map_or((self.global, round), |start| (start.model, start.round));
        update.clear();
        update.extend_from_slice(model);
        let job = TrainJob::round(key, round, self.cohort[member].client);
        // A task of your own may panic; the other threads would wait for its update without end.
        let train = AssertUnwindSafe(|| self.task.train(&job, &mut update));
        let report = catch_unwind(train).unwrap_or_else(|_| {
            Err(Error::new("task", "panicked", "a task that returns its errors"))
        });
        let sketcher = sketcher.filter(|_| report.is_ok());
        let sketch = sketcher.and_then(|sketcher| sketcher.sketch(model, &update));
        if let Some(start) = start {
            start.rebase(self.global, &mut update);
        }
        let mut progress = self.progress.lock();
        progress.updates[member] = Some(update);
        progress.reports[member] = Some(report);
        progress.sketches[member] = sketch;
        self.changed.notify_all();
    }

    /// Says which member's update is needed now.
    fn want(&self, member: usize) {
        let mut progress = self.progress.lock();
        progress.wanted = progress.wanted.max(member);
        self.changed.notify_all();
    }

    /// The update of a member when it is there.
    fn wait_for(&self, member: usize) -> Result<Vec<f32>> {
        self.want(member);
        let mut progress = self.progress.lock();
        loop {
            if let Some(report) = &progress.reports[member] {
                report.as_ref().map_err(Clone::clone)?;
                let gone = || Error::new("update", "released", "one that is still needed");
                return progress.updates[member].take().ok_or_else(gone);
            }
            self.changed.wait(&mut progress);
        }
    }
}

/// The updates of a cohort as its aggregator sees them.
struct TrainedUpdates<'a> {
    training: &'a CohortTraining<'a>,
    /// Whether there are no other threads, so that a client is trained when its update is asked for.
    on_demand: bool,
    /// The updates that the aggregator looks at.
    held: Vec<Option<Vec<f32>>>,
}

impl<'a> TrainedUpdates<'a> {
    fn new(training: &'a CohortTraining<'a>, on_demand: bool) -> Self {
        Self { training, on_demand, held: vec![None; training.cohort.len()] }
    }

    fn get(&mut self, member: usize) -> Result<&[f32]> {
        if self.held[member].is_none() {
            if let Some(why) = &self.training.cohort[member].missing {
                return Err(Error::new("update", why, "a member that is not missing"));
            }
            while self.on_demand && self.training.progress.lock().reports[member].is_none() {
                self.training.want(member);
                let Some((next, buffer)) = self.training.take() else {
                    break;
                };
                self.training.train(next, buffer);
            }
            self.held[member] = Some(self.training.wait_for(member)?);
        }
        Ok(self.held[member].as_deref().unwrap_or_default())
    }
}

impl UpdateSource for TrainedUpdates<'_> {
    fn read(&mut self, member: usize, first: usize, target: &mut [f32]) -> Result<()> {
        read_part(self.get(member)?, first, target)
    }

    fn whole(&mut self, member: usize) -> Option<Result<&[f32]>> {
        Some(self.get(member))
    }

    fn release(&mut self, member: usize) {
        let mut progress = self.training.progress.lock();
        let held = self.held[member].take();
        let unread = progress.updates[member].take();
        progress.free.extend(held.or(unread));
    }
}

impl Drop for TrainedUpdates<'_> {
    /// However aggregation ended: no thread may wait for it, none begins with another client, and the buffers are for the
    /// next round.
    fn drop(&mut self) {
        let mut progress = self.training.progress.lock();
        progress.free.extend(self.held.drain(..).flatten());
        progress.next = self.training.cohort.len();
        progress.wanted = usize::MAX;
        self.training.changed.notify_all();
    }
}
