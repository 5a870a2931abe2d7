//! One round of federated learning: the cohort trains in parallel, and its updates are summed up in its order.
//!
//! Sums of floats depend on their order, so updates are added in the order of the cohort, whoever is ready first. An
//! update that is early waits in one of a few buffers, so that memory grows with the workers and not with the cohort.

use crate::aggregate::{Aggregator, Rejected, Server};
use crate::sketch::Sketcher;
use crate::train::{Crew, LocalReport, LocalTask, LocalTraining, Samples};
use agewise_core::{Error, Result, Seed};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A client of the cohort.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// Its number.
    pub client: u32,
    /// What its update counts for.
    pub weight: f64,
    /// Its data.
    pub samples: Samples<'a>,
}

/// What a round depends on beside the cohort.
#[derive(Debug, Clone, Copy)]
pub struct RoundPlan<'a> {
    /// How clients train.
    pub training: &'a LocalTraining,
    /// The seed of the run.
    pub seed: Seed,
    /// The round, from 0.
    pub round: u64,
    /// What makes sketches of updates, if there shall be any.
    pub sketcher: Option<&'a Sketcher>,
}

impl<'a> RoundPlan<'a> {
    /// A plan without sketches.
    pub fn new(training: &'a LocalTraining, seed: Seed, round: u64) -> Self {
        Self { training, seed, round, sketcher: None }
    }
}

/// What came of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundReport {
    /// For each client of the cohort what it reported, or why its update was not taken.
    pub members: Vec<std::result::Result<LocalReport, Rejected>>,
    /// For each of them a sketch of its update, if it was asked for and taken.
    pub sketches: Vec<Option<Vec<f32>>>,
}

/// A global model, and what is needed to train it further.
#[derive(Debug)]
pub struct Federation {
    global: Vec<f32>,
    server: Server,
    aggregator: Aggregator,
    /// For updates, from round to round.
    buffers: Vec<Vec<f32>>,
}

/// Updates on their way into the sum.
struct Queue<'a> {
    aggregator: &'a mut Aggregator,
    members: Vec<Option<std::result::Result<LocalReport, Rejected>>>,
    sketches: Vec<Option<Vec<f32>>>,
    /// The member whose turn it is.
    next: usize,
    /// Members that were early.
    early: BTreeMap<usize, (Vec<f32>, Result<LocalReport>)>,
    free: Vec<Vec<f32>>,
}

impl Federation {
    /// Begins with a model.
    pub fn new(global: Vec<f32>, server: Server) -> Result<Self> {
        server.check(global.len())?;
        Ok(Self { aggregator: Aggregator::new(global.len()), global, server, buffers: Vec::new() })
    }

    /// The global model.
    pub fn global(&self) -> &[f32] {
        &self.global
    }

    /// The server's memory.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Plays a round. An update that cannot be taken is left out and reported; if none can, or if their average is not
    /// finite, the model stays.
    pub fn round(
        &mut self,
        crew: &mut Crew,
        cohort: &[Member<'_>],
        plan: RoundPlan<'_>,
    ) -> Result<RoundReport> {
        self.aggregator.begin();
        let parameters = self.global.len();
        // One buffer per worker, and as many to wait in.
        self.buffers.resize_with(2 * crew.len(), || Vec::with_capacity(parameters));
        let queue = Mutex::new(Queue {
            aggregator: &mut self.aggregator,
            members: vec![None; cohort.len()],
            sketches: vec![None; cohort.len()],
            next: 0,
            early: BTreeMap::new(),
            free: std::mem::take(&mut self.buffers),
        });
        let turn = Condvar::new();
        let global = &self.global;
        crew.work(
            cohort.len(),
            || (),
            |worker, (), index| {
                let mut update = wait_for_buffer(&queue, &turn, index);
                update.clear();
                update.extend_from_slice(global);
                let Member { client, samples, .. } = cohort[index];
                let RoundPlan { training, seed, round, sketcher } = plan;
                let task = LocalTask { training, samples, seed, round, client };
                // Another engine may panic; everyone else would wait for its turn for ever.
                let train = AssertUnwindSafe(|| worker.train(&task, &mut update));
                let result = catch_unwind(train).unwrap_or_else(|_| {
                    Err(Error::new("training", "a panic", "an engine that returns its errors"))
                });
                let sketch = sketcher.filter(|_| result.is_ok());
                let sketch = sketch.and_then(|sketcher| sketcher.sketch(global, &update));
                let mut queue = lock(&queue);
                queue.sketches[index] = sketch;
                queue.early.insert(index, (update, result));
                queue.take_turns(cohort);
                turn.notify_all();
            },
        );
        let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.buffers = queue.free;
        let mut sketches = queue.sketches;
        let mut members: Vec<_> = queue.members.into_iter().flatten().collect();
        if members.len() < cohort.len() {
            return Err(Error::new(
                "workers",
                "a worker ended early",
                "every client to be trained",
            ));
        }
        if let Err(error) = self.aggregator.finish(&mut self.server, &mut self.global) {
            // Each update was finite, and together they are not: nobody's is taken.
            for (member, &Member { client, .. }) in members.iter_mut().zip(cohort) {
                *member = Err(Rejected { client, why: error.to_string() });
            }
        }
        for (sketch, member) in sketches.iter_mut().zip(&members) {
            sketch.take_if(|_| member.is_err());
        }
        Ok(RoundReport { members, sketches })
    }
}

/// A worker that panicked has left nothing half done in the queue.
fn lock<'a, 'q>(queue: &'a Mutex<Queue<'q>>) -> MutexGuard<'a, Queue<'q>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer for a member. The one whose turn it is never waits: all others may be waiting for it.
fn wait_for_buffer(queue: &Mutex<Queue<'_>>, turn: &Condvar, member: usize) -> Vec<f32> {
    let mut guard = lock(queue);
    loop {
        if let Some(buffer) = guard.free.pop() {
            return buffer;
        }
        if guard.next == member {
            return Vec::new();
        }
        guard = turn.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Queue<'_> {
    /// Adds everyone whose turn has come.
    fn take_turns(&mut self, cohort: &[Member<'_>]) {
        while let Some((update, result)) = self.early.remove(&self.next) {
            let Member { client, weight, .. } = cohort[self.next];
            let outcome = match result {
                Ok(report) => self.aggregator.add(client, weight, &update).map(|()| report),
                Err(error) => Err(self.aggregator.miss(client, weight, error.to_string())),
            };
            self.members[self.next] = Some(outcome);
            self.free.push(update);
            self.next += 1;
        }
    }
}
