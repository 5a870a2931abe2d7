//! One policy under one seed, round by round.

use super::log::{RoundLog, TestScore};
use super::{RunId, Scene, Study};
use agewise_core::metrics::Participation;
use agewise_core::{Availability, Cohort, Error, Report, Result, Selector, build_policy};
use agewise_learn::aggregate::Server;
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::train::{Crew, Learner, LocalReport};

/// The lengths of the windows in which participation is counted.
const WINDOWS: [u32; 3] = [10, 20, 50];

/// The selection of a run: its selector and what was seen of it. It follows from the logs alone.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) selector: Selector,
    pub(super) participation: Participation,
}

impl Selection {
    pub(super) fn new(study: &Study, id: RunId, scene: &Scene) -> Result<Self> {
        let contender = study.contender(id)?;
        let policy = build_policy(&contender.spec, &scene.setting)?;
        let setting = scene.setting.clone();
        let (weighting, start) = (contender.weighting, contender.start);
        let selector = Selector::with_policy(policy, weighting, setting, scene.seed, start);
        let clients = scene.setting.clients();
        Ok(Self { selector, participation: Participation::new(clients, &WINDOWS) })
    }

    /// Ends a round as its log says.
    pub(super) fn follow(&mut self, log: &RoundLog) -> Result<()> {
        let round = self.selector.round();
        let (losses, weights) = (log.losses.len(), log.weights.len());
        if log.round != round || [losses, weights] != [log.clients.len(); 2] {
            let value = format!("round {} with {losses} losses, {weights} weights", log.round);
            let expected = format!("round {round} with one of each for {}", log.clients.len());
            return Err(Error::new("log", value, expected));
        }
        let taken = log.clients.iter().zip(&log.losses).filter(|(_, loss)| loss.is_some());
        let report = |(&client, &loss): (&u32, &Option<f32>)| Report { loss, ..Report::plain(client) };
        let reports: Vec<Report<'_>> = taken.map(report).collect();
        if let Some(&wrong) =
            log.clients.iter().find(|&&client| client >= self.selector.setting().clients())
        {
            return Err(Error::new("log", wrong, "the number of a client"));
        }
        let cohort = Cohort {
            round,
            clients: log.clients.clone(),
            weights: log.weights.clone(),
            forced: log.forced,
        };
        self.participation.record(&cohort, self.selector.ages());
        self.selector.finish(&reports)
    }
}

/// A model on its way: what has to be kept beside the logs to go on with a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Rounds that are behind it.
    pub rounds: u64,
    /// The global model.
    pub global: Vec<f32>,
    /// The server's memory.
    pub server: Server,
}

/// One policy under one seed, on its way.
pub struct TrainingRun<'a> {
    study: &'a Study,
    scene: &'a Scene,
    selection: Selection,
    federation: Federation,
    logs: Vec<RoundLog>,
}

impl<'a> TrainingRun<'a> {
    /// Begins a run.
    pub fn new(study: &'a Study, id: RunId) -> Result<Self> {
        let scene = study.scene(id.seed)?;
        let selection = Selection::new(study, id, scene)?;
        let server = Server::new(study.params().server, study.trainer().parameters())?;
        let federation = Federation::new(scene.first.clone(), server)?;
        Ok(Self { study, scene, selection, federation, logs: Vec::new() })
    }

    /// Goes on with a run; logs beyond the checkpoint are not used.
    pub fn resume(
        study: &'a Study,
        id: RunId,
        mut logs: Vec<RoundLog>,
        checkpoint: Checkpoint,
    ) -> Result<Self> {
        let scene = study.scene(id.seed)?;
        let mut selection = Selection::new(study, id, scene)?;
        if (logs.len() as u64) < checkpoint.rounds {
            let expected = format!("the {} rounds before the checkpoint", checkpoint.rounds);
            return Err(Error::new("log", format!("{} rounds", logs.len()), expected));
        }
        logs.truncate(checkpoint.rounds as usize);
        for log in &logs {
            selection.follow(log)?;
        }
        if checkpoint.global.len() != study.trainer().parameters() {
            let expected = format!("{} parameters", study.trainer().parameters());
            return Err(Error::new("checkpoint", checkpoint.global.len(), expected));
        }
        if checkpoint.server.rule() != study.params().server {
            let value = format!("a server with {:?}", checkpoint.server.rule());
            let expected = format!("{:?}", study.params().server);
            return Err(Error::new("checkpoint", value, expected));
        }
        let federation = Federation::new(checkpoint.global, checkpoint.server)?;
        Ok(Self { study, scene, selection, federation, logs })
    }

    /// The rounds so far.
    pub fn logs(&self) -> &[RoundLog] {
        &self.logs
    }

    /// The global model.
    pub fn global(&self) -> &[f32] {
        self.federation.global()
    }

    /// The server's memory.
    pub fn server(&self) -> &Server {
        self.federation.server()
    }

    /// Whether the run is at its end.
    pub fn is_finished(&self) -> bool {
        self.study.is_finished(&self.logs)
    }

    /// Plays a round.
    pub fn play_round(&mut self, crew: &mut Crew) -> Result<()> {
        let cohort = self.selection.selector.select(Availability::Everyone)?;
        let members: Vec<Member<'_>> = cohort
            .clients
            .iter()
            .zip(&cohort.weights)
            .map(|(&client, &weight)| {
                let samples = self.study.samples(self.scene, client);
                Member { client, weight, samples }
            })
            .collect();
        let gaps = if self.study.watches_gaps_before(cohort.round) {
            let global = self.federation.global();
            Some(self.study.gaps_before(self.scene, &mut self.selection.selector, global, crew)?)
        } else {
            None
        };
        let training = self.study.training_in(self.scene, crew)?;
        let plan = RoundPlan { training: &training, seed: self.scene.seed, round: cohort.round };
        let report = self.federation.round(crew, &members, plan)?;
        let loss = |report: &LocalReport| {
            // A file holds no infinity, and nothing else is as bad.
            let loss = report.loss as f32;
            if loss.is_finite() { loss } else { f32::MAX }
        };
        let losses = report.members.iter().map(|member| member.as_ref().ok().map(loss)).collect();
        let test = if self.study.evaluates(cohort.round) {
            let score = crew.evaluate(self.federation.global(), &self.study.test_samples())?;
            let loss = Some(score.loss()).filter(|loss| loss.is_finite());
            Some(TestScore { correct: score.class_correct, loss })
        } else {
            None
        };
        let log = RoundLog {
            round: cohort.round,
            clients: cohort.clients,
            weights: cohort.weights,
            losses,
            forced: cohort.forced,
            test,
            gaps,
            final_losses: None,
        };
        self.selection.follow(&log)?;
        self.logs.push(log);
        if self.study.watches_gaps() && self.is_finished() {
            let losses = self.study.losses(self.scene, self.federation.global(), crew)?;
            if let Some(last) = self.logs.last_mut() {
                last.final_losses = Some(losses);
            }
        }
        Ok(())
    }

    pub(super) fn into_logs(self) -> Vec<RoundLog> {
        self.logs
    }
}
