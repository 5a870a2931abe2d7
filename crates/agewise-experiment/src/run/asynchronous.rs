//! Training without rounds: steps of the server, each with the updates that have come in since the last.

use super::replayed_selection::LoggedSelection;
use super::training::TrainingRun;
use crate::clock::{Answer, AtWork, Fleet, RoundClock, RoundCosts, Schedule, Step};
use crate::log::{AskLog, RoundLog};
use crate::probes::{Prober, writable};
use crate::world::{RoundWorld, WorldSelector};
use agewise_core::{Error, LossNeed, Pick, Result};
use agewise_train::aggregation::{AggregatorState, Contribution};
use agewise_train::sketch::Sketcher;
use agewise_train::{EarlierStart, RoundPlan, Threads};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How the models that clients at work were sent are called in a checkpoint, before the number of the step.
const SENT: &str = "sent-in-step-";

/// The models that clients at work were sent, by the step of the server, with their names in a checkpoint.
pub(super) type SentModels = BTreeMap<u64, (String, Vec<f32>)>;

/// Takes the models that were sent out of the state of a server.
pub(super) fn split_sent(state: AggregatorState) -> (SentModels, AggregatorState) {
    let (mut sent, mut rest) = (SentModels::new(), AggregatorState::new());
    for (name, values) in state {
        match name.strip_prefix(SENT).and_then(|step| step.parse().ok()) {
            Some(step) => drop(sent.insert(step, (name, values))),
            None => rest.push((name, values)),
        }
    }
    (sent, rest)
}

/// The policy is asked, and its probes are answered.
struct LiveFleet<'a> {
    selector: &'a mut WorldSelector,
    prober: &'a Prober<'a>,
    sketcher: Option<&'a Sketcher>,
    clock: &'a RoundClock<'a>,
    asks: Vec<AskLog>,
    /// What probes cost, and how many clients got the model for them and were not asked then.
    probes: RoundCosts,
    probed: u32,
    selecting: Duration,
}

impl Fleet for LiveFleet<'_> {
    fn go_on(&mut self, now: f64) {
        self.selector.go_on(now);
    }

    fn is_anyone_free(&self, busy: &BTreeSet<u32>) -> bool {
        self.selector.is_anyone_free(busy)
    }

    fn next_change(&self, busy: &BTreeSet<u32>) -> Option<f64> {
        self.selector.next_change(busy)
    }

    fn offline_before(&self, client: u32, end: f64) -> Option<f64> {
        self.selector.presence()?.offline_before(client, end)
    }

    fn ask(&mut self, free: usize, busy: &BTreeSet<u32>) -> Result<Answer> {
        let world = self.selector.now();
        let begin = Instant::now();
        let prober = (self.prober, self.sketcher);
        let (clients, probed) = self.selector.fill(free, busy, prober)?;
        self.selecting += begin.elapsed();
        let wait = self.clock.add_probes(&probed, &mut self.probes);
        let has_model = |client: &u32| probed.contains_key(client);
        let log = AskLog {
            probed: clients.iter().copied().filter(has_model).collect(),
            clients,
            wait: (!probed.is_empty()).then_some(wait),
        };
        self.probed += (probed.len() - log.probed.len()) as u32;
        let answer = answer(&log, &world);
        self.asks.push(log);
        Ok(answer)
    }

    fn has_left(&self, client: u32) -> bool {
        self.selector.selector().population().has_left(client)
    }
}

/// Those are asked whom a log names.
struct LoggedFleet<'a> {
    selector: &'a mut WorldSelector,
    asks: std::slice::Iter<'a, AskLog>,
}

impl Fleet for LoggedFleet<'_> {
    fn go_on(&mut self, now: f64) {
        self.selector.go_on(now);
    }

    fn is_anyone_free(&self, busy: &BTreeSet<u32>) -> bool {
        self.selector.is_anyone_free(busy)
    }

    fn next_change(&self, busy: &BTreeSet<u32>) -> Option<f64> {
        self.selector.next_change(busy)
    }

    fn offline_before(&self, client: u32, end: f64) -> Option<f64> {
        self.selector.presence()?.offline_before(client, end)
    }

    fn ask(&mut self, free: usize, busy: &BTreeSet<u32>) -> Result<Answer> {
        let fits = |ask: &&AskLog| {
            ask.clients.len() <= free && !ask.clients.iter().any(|client| busy.contains(client))
        };
        let unknown = || Error::new("log", "no clients", "those that were asked for a free place");
        Ok(answer(self.asks.next().filter(fits).ok_or_else(unknown)?, &self.selector.now()))
    }

    fn has_left(&self, client: u32) -> bool {
        self.selector.selector().population().has_left(client)
    }
}

fn answer(log: &AskLog, world: &RoundWorld) -> Answer {
    let drops_out = |&client: &u32| (client, world.drops_out(client));
    Answer {
        clients: log.clients.iter().map(drops_out).collect(),
        probed: log.probed.iter().copied().collect(),
        wait: log.wait.unwrap_or(0.0),
    }
}

impl LoggedSelection<'_> {
    /// Plays a step of the server, and writes down who was asked and what it took. Also returns how long the policy took.
    fn play_step(&mut self, prober: &Prober<'_>, log: &mut RoundLog) -> Result<(Step, Duration)> {
        let (selector, sketcher) = (&mut self.selector, self.sketcher.as_ref());
        let (clock, in_flight) = without_rounds(&mut self.clock)?;
        let mut fleet = LiveFleet {
            selector,
            prober,
            sketcher,
            clock,
            asks: Vec::new(),
            probes: RoundCosts::default(),
            probed: 0,
            selecting: Duration::ZERO,
        };
        let mut step = in_flight.step(clock, log.round, &mut fleet)?;
        let LiveFleet { asks, probes, probed, selecting, .. } = fleet;
        step.clock.costs.add(&probes);
        (log.asks, log.probed, log.clock) = (asks, probed, Some(step.clock.clone()));
        log.dropped.clone_from(&step.dropped);
        log.clients = step.arrived.iter().map(|work| work.client).collect();
        log.staleness = step.arrived.iter().map(|work| log.round - work.step).collect();
        Ok((step, selecting))
    }

    /// Plays a step of the server again, with those at work whom its log says were asked.
    pub(super) fn replay_step(&mut self, log: &RoundLog) -> Result<()> {
        let (clock, in_flight) = without_rounds(&mut self.clock)?;
        let mut fleet = LoggedFleet { selector: &mut self.selector, asks: log.asks.iter() };
        let step = in_flight.step(clock, log.round, &mut fleet)?;
        let arrived: Vec<u32> = step.arrived.iter().map(|work| work.client).collect();
        if arrived == log.clients && step.dropped == log.dropped {
            return Ok(());
        }
        let value = format!("{:?} in step {}", log.clients, log.round);
        Err(Error::new("log", value, format!("{arrived:?}, as those who were asked arrive")))
    }
}

/// The clock and the clients at work of a run without rounds.
fn without_rounds<'a, 'b>(
    clock: &'a mut Option<super::RunClock<'b>>,
) -> Result<(&'a RoundClock<'b>, &'a mut crate::clock::InFlight)> {
    let none = || Error::new("schedule", "rounds", "one without rounds");
    clock.as_mut().and_then(super::RunClock::without_rounds).ok_or_else(none)
}

/// Where those began whose updates are in the buffer of a step.
fn starts<'a>(
    sent: &'a SentModels,
    schedule: Schedule,
    step: u64,
    arrived: &[AtWork],
) -> Result<Vec<EarlierStart<'a>>> {
    let start = |work: &AtWork| {
        let lost = || Error::new("checkpoint", work.step, "the model that was sent in this step");
        let (_, model) = sent.get(&work.step).ok_or_else(lost)?;
        let rule = schedule.stale_rule(step - work.step);
        Ok(EarlierStart { round: work.step, model, rule })
    };
    arrived.iter().map(start).collect()
}

impl TrainingRun<'_> {
    /// Plays a step of the server.
    pub(super) fn play_step(&mut self, schedule: Schedule, threads: Threads) -> Result<()> {
        self.selection.begin()?;
        let task = self.context.task(self.experiment, threads)?;
        let step = self.logs.len() as u64;
        let mut log =
            RoundLog { round: step, available: self.selection.available(), ..RoundLog::default() };
        self.sent.insert(step, (format!("{SENT}{step}"), self.engine.global().to_vec()));
        let before = (step == 0).then(|| self.selection.selector.selector().ages().clone());
        let Self { selection, engine, context, .. } = self;
        let prober = Prober { task: &*task, key: context.key, global: engine.global(), threads };
        let (played, selecting) = selection.play_step(&prober, &mut log)?;
        self.selecting = selecting;
        if let Some(before) = before {
            let ages = self.selection.selector.selector().ages();
            log.initial_ages = (*ages != before).then(|| ages.iter().collect());
            log.first_losses = self.selection.first_losses();
        }
        let picks: Vec<Pick> = log.clients.iter().map(|&client| Pick::once(client)).collect();
        log.weights = self.selection.selector.weigh(&picks)?;
        let starts = starts(&self.sent, schedule, step, &played.arrived)?;
        if self.selection.selector.selector().policy().needs().loss == LossNeed::WholeData {
            let of = |place: usize| {
                let (client, model) = (log.clients[place], starts[place].model);
                Ok(writable(task.client_loss(self.context.key, client, model)?))
            };
            log.whole_losses = threads.map(log.clients.len(), of)?;
        }
        let plan = RoundPlan {
            sketcher: self.selection.sketcher.as_ref(),
            starts: Some(&starts),
            ..RoundPlan::new(self.context.key, step)
        };
        let members: Vec<Contribution> = (log.clients.iter().zip(&log.weights))
            .map(|(&client, &weight)| Contribution::new(client, weight))
            .collect();
        let report = self.engine.round(&*task, plan, &members, threads)?;
        let at_work = self.selection.steps_at_work();
        self.sent.retain(|step, _| at_work.contains(step));
        self.end_round(&*task, log, &report, threads)
    }
}
