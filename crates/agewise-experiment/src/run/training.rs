//! A run of training: one variant under one seed, round by round.

use super::asynchronous::{SentModels, split_sent};
use super::replayed_selection::LoggedSelection;
use crate::clock::Asked;
use crate::experiment::{Experiment, SeedContext, Variant};
use crate::log::{RoundLog, TestScore};
use crate::objective::ObjectiveRecord;
use crate::probes::{Prober, writable};
use crate::record::{ClientRecord, ClockRecord, CurvePoint, Record, RunId, TrainingRecord};
use crate::world::Selected;
use agewise_core::{Error, LossNeed, ProbeKind, Result};
use agewise_train::aggregation::Contribution;
use agewise_train::checkpoint::Checkpoint;
use agewise_train::local::LocalReport;
use agewise_train::{RoundEngine, RoundPlan, RoundReport, Task, Threads};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A run of training in progress.
pub struct TrainingRun<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) context: &'a SeedContext,
    variant: &'a Variant,
    pub(super) selection: LoggedSelection<'a>,
    pub(super) engine: RoundEngine,
    pub(super) logs: Vec<RoundLog>,
    /// Where there are no rounds, the models that clients at work were sent.
    pub(super) sent: SentModels,
    /// Of the last round; callers may ask for it, and it leaves no trace in the logs.
    pub(super) selecting: Duration,
}

impl<'a> TrainingRun<'a> {
    /// Begins a run.
    pub fn new(experiment: &'a Experiment, id: RunId) -> Result<Self> {
        let context = experiment.context(id.seed)?;
        let variant = experiment.variant(id)?;
        let engine = RoundEngine::new(context.first_model.clone(), variant.aggregation())?;
        let task = experiment.required_task()?;
        let selection = LoggedSelection::new(experiment, id, task, context)?;
        let (logs, sent, selecting) = (Vec::new(), SentModels::new(), Duration::ZERO);
        Ok(Self { experiment, context, variant, selection, engine, logs, sent, selecting })
    }

    /// Goes on with a run; logs beyond the checkpoint are not used.
    pub fn resume(
        experiment: &'a Experiment,
        id: RunId,
        mut logs: Vec<RoundLog>,
        checkpoint: Checkpoint,
    ) -> Result<Self> {
        let mut run = Self::new(experiment, id)?;
        let Checkpoint { metadata, parameters, server, sketched, sketches } = checkpoint;
        if (logs.len() as u64) < metadata.round {
            let expected = format!("the {} rounds before the checkpoint", metadata.round);
            return Err(Error::new("log", format!("{} rounds", logs.len()), expected));
        }
        if parameters.len() != run.global().len() {
            let expected = format!("{} parameters", run.global().len());
            return Err(Error::new("checkpoint", parameters.len(), expected));
        }
        logs.truncate(metadata.round as usize);
        run.selection.replay(&logs)?;
        run.selection.restore_sketches(&sketched, &sketches)?;
        let (sent, server) = split_sent(server);
        let whole =
            |step: &u64| sent.get(step).is_some_and(|(_, model)| model.len() == run.global().len());
        if let Some(step) = run.selection.steps_at_work().iter().find(|step| !whole(step)) {
            let expected = "the models that clients at work were sent";
            return Err(Error::new("checkpoint", format!("none of step {step}"), expected));
        }
        run.engine =
            RoundEngine::resume(parameters, experiment.variant(id)?.aggregation(), server)?;
        Ok(Self { logs, sent, ..run })
    }

    /// What the server remembers: what the aggregator does, and the models that clients at work were sent.
    pub fn server_state(&self) -> Vec<(&str, &[f32])> {
        let sent = self.sent.values().map(|(name, model)| (name.as_str(), &model[..]));
        self.engine.aggregator().state().into_iter().chain(sent).collect()
    }

    /// The clients with a sketch of their last update, where the policy looks at those, and all sketches one after the
    /// other.
    pub fn sketches(&self) -> (Vec<u32>, Vec<f32>) {
        self.selection.sketches()
    }

    /// The rounds so far.
    pub fn logs(&self) -> &[RoundLog] {
        &self.logs
    }

    /// The global model.
    pub fn global(&self) -> &[f32] {
        self.engine.global()
    }

    /// Whether the run is at its end.
    pub fn is_finished(&self) -> bool {
        self.experiment.is_finished(self.variant, &self.logs)
    }

    /// How long the policy took to select the last cohort on this machine, without the answers to its probes.
    pub fn selecting_time(&self) -> Duration {
        self.selecting
    }

    /// Plays a round.
    pub fn play_round(&mut self, threads: Threads) -> Result<()> {
        let schedule = self.variant.schedule();
        if schedule.updates_per_step().is_some() {
            return self.play_step(schedule, threads);
        }
        self.selection.begin()?;
        let task = self.context.task(self.experiment, threads)?;
        let mut log = RoundLog {
            round: self.logs.len() as u64,
            available: self.selection.available(),
            ..RoundLog::default()
        };
        let probed = self.probe(&*task, threads, &mut log)?;
        let begin = Instant::now();
        let Selected { cohort, dropped, late } = self.select(&probed, &mut log)?;
        self.selecting = begin.elapsed();
        // A client that was probed and is selected has the model of this round already.
        let selected = |client: &u32| {
            let asked = [&cohort.clients, &dropped, &late];
            asked.iter().any(|some| some.binary_search(client).is_ok())
        };
        log.probed = probed.keys().filter(|client| !selected(client)).count() as u32;
        if self.selection.selector.selector().policy().needs().loss == LossNeed::WholeData {
            log.whole_losses = self.prober(&*task, threads).losses(&cohort.clients)?;
        }
        if self.experiment.looks_at_objectives_before(self.variant, log.round) {
            let global = self.engine.global();
            let selector = &mut self.selection.selector;
            let objectives =
                self.experiment.objectives_before(self.context, selector, global, threads)?;
            log.objectives = Some(objectives);
        }
        let plan = RoundPlan {
            sketcher: self.selection.sketcher.as_ref(),
            ..RoundPlan::new(self.context.key, log.round)
        };
        let members = Contribution::of_cohort(&cohort);
        let report = self.engine.round(&*task, plan, &members, threads)?;
        (log.clients, log.weights) = (cohort.clients, cohort.weights);
        (log.dropped, log.late) = (dropped, late);
        log.forced = cohort.forced;
        self.end_round(&*task, log, &report, threads)
    }

    /// Ends a round: looks at what clients reported and at the new model, and credits them.
    pub(super) fn end_round(
        &mut self,
        task: &dyn Task,
        mut log: RoundLog,
        report: &RoundReport,
        threads: Threads,
    ) -> Result<()> {
        task.check()?;
        log.not_deterministic = !task.is_deterministic();
        self.write_reports(report, &mut log);
        if self.experiment.evaluates(self.variant, log.round) {
            let evaluation = task.evaluate_all(self.engine.global(), threads)?;
            log.test = Some(TestScore {
                samples: evaluation.samples,
                loss: Some(evaluation.loss()).filter(|loss| loss.is_finite()),
                class_samples: evaluation.class_samples,
                class_correct: evaluation.class_correct,
            });
        }
        self.selection.follow(&log, &report.sketches)?;
        self.logs.push(log);
        if self.experiment.looks_at_objectives() && self.is_finished() {
            let losses = self.experiment.objectives(self.context, self.engine.global(), threads)?;
            if let Some(last) = self.logs.last_mut() {
                last.final_losses = Some(losses);
            }
        }
        Ok(())
    }

    fn prober<'b>(&'b self, task: &'b dyn Task, threads: Threads) -> Prober<'b> {
        Prober { task, key: self.context.key, global: self.engine.global(), threads }
    }

    /// Selects the cohort. Where there is a clock, it says who is late and what the round costs.
    fn select(
        &mut self,
        probed: &BTreeMap<u32, ProbeKind>,
        log: &mut RoundLog,
    ) -> Result<Selected> {
        let LoggedSelection { selector, clock, .. } = &mut self.selection;
        let Some(clock) = clock else {
            return selector.select();
        };
        let round = log.round;
        selector.select_in_time(|delivering, dropped, presence| {
            let asked = Asked { round, delivering, dropped, probed, presence };
            let (untimely, times) = clock.end(asked);
            log.clock = Some(times);
            untimely
        })
    }

    /// Answers the probes of the policy; returns the clients that were sent the model for them.
    fn probe(
        &mut self,
        task: &dyn Task,
        threads: Threads,
        log: &mut RoundLog,
    ) -> Result<BTreeMap<u32, ProbeKind>> {
        let Self { selection, engine, context, .. } = self;
        let prober = Prober { task, key: context.key, global: engine.global(), threads };
        let LoggedSelection { selector, sketcher, .. } = selection;
        let before = (log.round == 0).then(|| selector.selector().ages().clone());
        let probed = selector.answer_probes(&prober, sketcher.as_ref())?;
        if let Some(before) = before {
            let ages = selector.selector().ages();
            log.initial_ages = (*ages != before).then(|| ages.iter().collect());
            log.first_losses = selection.first_losses();
        }
        Ok(probed)
    }

    /// What the clients of a round reported.
    fn write_reports(&self, report: &RoundReport, log: &mut RoundLog) {
        let members = || report.members.iter().map(|member| member.as_ref().ok());
        log.losses = members().map(|report| Some(writable(report?.loss))).collect();
        if self.selection.selector.selector().policy().needs().loss_squares {
            let root = |report: Option<&LocalReport>| Some(writable(report?.mean_square.sqrt()));
            log.root_mean_squares = members().map(root).collect();
        }
    }

    pub(crate) fn into_logs(self) -> Vec<RoundLog> {
        self.logs
    }
}

impl Record {
    /// Follows the logs of a training run.
    pub fn of_training(experiment: &Experiment, id: RunId, logs: Vec<RoundLog>) -> Result<Self> {
        let (task, context) = (experiment.required_task()?, experiment.context(id.seed)?);
        let variant = experiment.variant(id)?;
        let mut selection = LoggedSelection::new(experiment, id, task, context)?;
        selection.replay(&logs)?;
        let last = logs.iter().rev().find_map(|log| log.test.as_ref());
        let client = |(client, &samples): (u32, &u64)| {
            let (selections, age) = selection.client(client);
            let labels = context.labels.as_ref().and_then(|labels| labels.get(client as usize));
            let accuracy = last.zip(labels).and_then(|(test, labels)| test.accuracy_for(labels));
            ClientRecord { samples, selections, age, accuracy }
        };
        let clients = (0..).zip(&context.samples).map(client).collect();
        let point = |log: &RoundLog| {
            let (test, score) = (log.test.as_ref()?, experiment.score(log)?);
            let (accuracy, loss) = (test.accuracy(), test.loss);
            let step = log.round + 1;
            let round = experiment.rounds_after(variant, step);
            Some(CurvePoint { round, step, score, accuracy, loss })
        };
        let clock = selection.clock.as_ref().map(|clock| ClockRecord {
            seconds: clock.seconds(),
            rounds: logs.iter().filter_map(|log| Some(log.clock.as_ref()?.costs)).collect(),
        });
        let (rounds, load) = selection.finish();
        let training = TrainingRecord {
            metric: experiment.metric(),
            rounds_per_step: experiment.rounds_per_step(variant),
            curve: logs.iter().filter_map(point).collect(),
            clients,
            objectives: ObjectiveRecord::new(context, &logs)?,
            clock,
            logs,
        };
        let finished = experiment.is_finished(variant, &training.logs);
        Ok(Self { id, finished, rounds, load, training: Some(training) })
    }
}
