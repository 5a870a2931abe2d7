//! One policy under one seed, round by round.

use super::log::{RoundLog, TestScore};
use super::{RunId, Scene, Study};
use crate::objective::{Results, local_losses};
use agewise_core::metrics::Participation;
use agewise_core::{Availability, Cohort, Error, Report, Result, Selector, build_policy};
use agewise_learn::aggregate::Server;
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::sketch::Sketcher;
use agewise_learn::train::{
    Crew, Learner, LocalReport, LocalTask, LocalTrainingParams, LocalWork, Samples,
};

/// The lengths of the windows in which participation is counted.
const WINDOWS: [u32; 3] = [10, 20, 50];

/// The selection of a run: its selector and what was seen of it. It follows from the logs alone.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) selector: Selector,
    pub(super) participation: Participation,
    /// Where the policy looks at updates.
    sketcher: Option<Sketcher>,
}

impl Selection {
    pub(super) fn new(study: &Study, id: RunId, scene: &Scene) -> Result<Self> {
        let contender = study.contender(id)?;
        let policy = build_policy(&contender.spec, &scene.setting)?;
        let setting = scene.setting.clone();
        let (weighting, start) = (contender.weighting, contender.start);
        let selector = Selector::with_policy(policy, weighting, setting, scene.seed, start);
        let clients = scene.setting.clients();
        let wants = selector.policy().wants_sketches();
        let sketcher = wants.then(|| Sketcher::new(study.trainer(), scene.seed));
        Ok(Self { selector, participation: Participation::new(clients, &WINDOWS), sketcher })
    }

    /// Ends a round as its log says; sketches are not in it and come beside, where they are known.
    pub(super) fn follow(&mut self, log: &RoundLog, sketches: &[Option<Vec<f32>>]) -> Result<()> {
        let round = self.selector.round();
        let (losses, weights) = (log.losses.len(), log.weights.len());
        let squares = log.root_mean_squares.len();
        let complete = [losses, weights] == [log.clients.len(); 2]
            && [0, log.clients.len()].contains(&squares);
        if log.round != round || !complete {
            let value = format!("round {} with {losses} losses, {weights} weights", log.round);
            let expected = format!("round {round} with one of each for {}", log.clients.len());
            return Err(Error::new("log", value, expected));
        }
        let taken = log.clients.iter().zip(&log.losses).enumerate();
        let report = |(place, (&client, &loss)): (usize, (&u32, &Option<f32>))| Report {
            loss,
            root_mean_square: log.root_mean_squares.get(place).copied().flatten(),
            sketch: sketches.get(place).and_then(Option::as_deref),
            ..Report::plain(client)
        };
        let taken = taken.filter(|(_, (_, loss))| loss.is_some());
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

    /// Takes back the sketches of a checkpoint.
    fn recall(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let (clients, numbers) = (&checkpoint.sketched, &checkpoint.sketches);
        let width = self.sketcher.as_ref().map_or(0, Sketcher::width);
        if clients.len() * width != numbers.len() {
            let value = format!("{} numbers of {} clients", numbers.len(), clients.len());
            let expected = format!("sketches of {width} numbers each");
            return Err(Error::new("checkpoint", value, expected));
        }
        let sketches = clients.iter().zip(numbers.chunks(width.max(1)));
        let said: Vec<Report<'_>> = sketches
            .map(|(&client, sketch)| Report { sketch: Some(sketch), ..Report::plain(client) })
            .collect();
        self.selector.note(&said)
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
    /// The clients whose updates are remembered in a sketch.
    pub sketched: Vec<u32>,
    /// Their sketches, one after the other.
    pub sketches: Vec<f32>,
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
            selection.follow(log, &[])?;
        }
        selection.recall(&checkpoint)?;
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

    /// The clients with a sketch of their last update, where the policy looks at those, and all sketches one after the
    /// other.
    pub fn sketches(&self) -> (Vec<u32>, Vec<f32>) {
        let all = || self.selection.selector.reports().sketches();
        let clients = all().map(|(client, _)| client).collect();
        (clients, all().flat_map(|(_, sketch)| sketch).copied().collect())
    }

    /// Whether the run is at its end.
    pub fn is_finished(&self) -> bool {
        self.study.is_finished(&self.logs)
    }

    /// Plays a round.
    pub fn play_round(&mut self, crew: &mut Crew) -> Result<()> {
        let asked = self.answer(crew)?;
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
        let plan = RoundPlan {
            sketcher: self.selection.sketcher.as_ref(),
            ..RoundPlan::new(&training, self.scene.seed, cohort.round)
        };
        let report = self.federation.round(crew, &members, plan)?;
        // A file holds no infinity, and nothing else is as bad.
        let writable = |value: f64| if value.is_finite() { value as f32 } else { f32::MAX };
        let members = || report.members.iter().map(|member| member.as_ref().ok());
        let losses = members().map(|report| Some(writable(report?.loss))).collect();
        let squares = self.selection.selector.policy().wants_squares();
        let root_mean_squares = members()
            .filter(|_| squares)
            .map(|report: Option<&LocalReport>| Some(writable(report?.mean_square.sqrt())))
            .collect();
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
            root_mean_squares,
            asked,
            forced: cohort.forced,
            test,
            gaps,
            final_losses: None,
        };
        self.selection.follow(&log, &report.sketches)?;
        self.logs.push(log);
        if self.study.watches_gaps() && self.is_finished() {
            let losses = self.study.losses(self.scene, self.federation.global(), crew)?;
            if let Some(last) = self.logs.last_mut() {
                last.final_losses = Some(losses);
            }
        }
        Ok(())
    }

    /// Finds out what the policy wants to know before it chooses. Returns how many clients were sent the model for it.
    fn answer(&mut self, crew: &mut Crew) -> Result<u32> {
        let selector = &mut self.selection.selector;
        let global = self.federation.global();
        let clients = selector.asks(Availability::Everyone)?;
        if !clients.is_empty() {
            let samples: Vec<Samples<'_>> =
                clients.iter().map(|&client| self.study.samples(self.scene, client)).collect();
            let losses = local_losses(crew, global, &samples, 0.0)?;
            let said = clients.iter().zip(losses).map(|(&client, loss)| {
                let loss = if loss.is_finite() { loss as f32 } else { f32::MAX };
                Report { loss: Some(loss), ..Report::plain(client) }
            });
            selector.note(&said.collect::<Vec<_>>())?;
        }
        let probed = match &self.selection.sketcher {
            Some(_) => selector.asks_sketches(Availability::Everyone)?,
            None => Vec::new(),
        };
        if let (false, Some(sketcher)) = (probed.is_empty(), &self.selection.sketcher) {
            // One step is enough to tell clients apart.
            let params = *self.study.training().params();
            let training = LocalTrainingParams { work: LocalWork::Steps(1), ..params }.check()?;
            let sketches = Results::new(probed.len());
            crew.work(probed.len(), Vec::new, |worker, model: &mut Vec<f32>, place| {
                model.clear();
                model.extend_from_slice(global);
                let client = probed[place];
                let task = LocalTask {
                    training: &training,
                    samples: self.study.samples(self.scene, client),
                    seed: self.scene.seed,
                    round: 0,
                    client,
                };
                let trained = worker.train(&task, model);
                sketches.put(place, trained.map(|_| sketcher.sketch(global, model)));
            });
            let sketches = sketches.into_values()?;
            let said = probed.iter().zip(&sketches).map(|(&client, sketch)| Report {
                sketch: sketch.as_deref(),
                ..Report::plain(client)
            });
            selector.note(&said.collect::<Vec<_>>())?;
        }
        Ok((clients.len() + probed.len()) as u32)
    }

    pub(super) fn into_logs(self) -> Vec<RoundLog> {
        self.logs
    }
}
