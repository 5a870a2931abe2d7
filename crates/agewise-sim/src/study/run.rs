//! One policy under one seed, round by round.

use super::log::{RoundLog, TestScore};
use super::questions::Questions;
use super::{RunId, Scene, Study};
use agewise_core::metrics::Participation;
use agewise_core::{
    Ages, Availability, Cohort, Error, Report, Result, Selector, SelectorState, build_policy,
};
use agewise_learn::aggregate::Server;
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::sketch::Sketcher;
use agewise_learn::train::{Crew, Learner, LocalReport};
use std::time::{Duration, Instant};

/// The lengths of the windows in which participation is counted.
const WINDOWS: [u32; 3] = [10, 20, 50];

/// The selection of a run: its selector and what was seen of it. It follows from the logs alone.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    pub(super) selector: Selector,
    pub(super) participation: Participation,
    /// Where the policy looks at updates.
    pub(super) sketcher: Option<Sketcher>,
    /// How long each client trains.
    durations: &'a [f32],
}

impl<'a> Selection<'a> {
    pub(super) fn new(study: &Study, id: RunId, scene: &'a Scene) -> Result<Self> {
        let contender = study.contender(id)?;
        let policy = build_policy(&contender.spec, &scene.setting)?;
        let setting = scene.setting.clone();
        let (weighting, start) = (contender.weighting, contender.start);
        let selector = Selector::with_policy(policy, weighting, setting, scene.seed, start);
        let clients = scene.setting.clients();
        let wants = selector.policy().wants_sketches();
        let sketcher = wants.then(|| Sketcher::new(study.trainer(), scene.seed));
        let participation = Participation::new(clients, &WINDOWS);
        Ok(Self { selector, participation, sketcher, durations: &scene.durations })
    }

    /// Ends a round as its log says. Durations follow from the configuration; sketches are not in the log and come
    /// beside, where they are known.
    pub(super) fn follow(&mut self, log: &RoundLog, sketches: &[Option<Vec<f32>>]) -> Result<()> {
        let round = self.selector.round();
        let (losses, weights) = (log.losses.len(), log.weights.len());
        let complete = [losses, weights] == [log.clients.len(); 2]
            && [log.root_mean_squares.len(), log.whole_losses.len()]
                .iter()
                .all(|figures| [0, log.clients.len()].contains(figures));
        if log.round != round || !complete {
            let value = format!("round {} with {losses} losses, {weights} weights", log.round);
            let expected = format!("round {round} with one of each for {}", log.clients.len());
            return Err(Error::new("log", value, expected));
        }
        if let Some(ages) = &log.first_ages {
            if round != 0 {
                return Err(Error::new("log", format!("first ages in round {round}"), "none"));
            }
            let state =
                SelectorState { ages: Ages::new(ages.iter().copied()), ..self.selector.state() };
            self.selector.restore(state)?;
        }
        let said: Vec<Report<'_>> = log
            .first_losses
            .iter()
            .map(|&(client, loss)| Report { loss: Some(loss), ..Report::plain(client) })
            .collect();
        if !said.is_empty() {
            self.selector.note(&said)?;
        }
        let taken = log.clients.iter().zip(&log.losses).enumerate();
        let report = |(place, (&client, &loss)): (usize, (&u32, &Option<f32>))| Report {
            loss: log.whole_losses.get(place).copied().or(loss),
            duration: self.durations.get(client as usize).copied(),
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

    /// Before the first round, what clients said about their loss when they were asked: only then has nobody reported any.
    fn first_losses(&self) -> Vec<(u32, f32)> {
        let (selector, clients) = (&self.selector, 0..self.selector.setting().clients());
        let loss = |client| Some((client, selector.reports().loss(client)?));
        if selector.round() == 0 { clients.filter_map(loss).collect() } else { Vec::new() }
    }

    /// Takes back the sketches of a checkpoint.
    fn recall(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let (clients, numbers) = (&checkpoint.sketched, &checkpoint.sketches);
        let width = self.sketcher.as_ref().map_or(0, Sketcher::width);
        let fits = clients.len() * width == numbers.len() && (width > 0 || clients.is_empty());
        if !fits {
            let value = format!("{} numbers of {} clients", numbers.len(), clients.len());
            let expected = match width {
                0 => "no sketches, as the policy looks at none".to_string(),
                _ => format!("sketches of {width} numbers each"),
            };
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
    selection: Selection<'a>,
    federation: Federation,
    logs: Vec<RoundLog>,
    /// Of the last round; it is told to whoever watches and leaves no trace in the logs.
    choosing: Duration,
}

impl<'a> TrainingRun<'a> {
    /// Begins a run.
    pub fn new(study: &'a Study, id: RunId) -> Result<Self> {
        let scene = study.scene(id.seed)?;
        let selection = Selection::new(study, id, scene)?;
        let server = Server::new(study.params().server, study.trainer().parameters())?;
        let federation = Federation::new(scene.first.clone(), server)?;
        Ok(Self { study, scene, selection, federation, logs: Vec::new(), choosing: Duration::ZERO })
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
        Ok(Self { study, scene, selection, federation, logs, choosing: Duration::ZERO })
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

    /// How long the policy took to choose the last cohort on this machine, without the answers to its questions.
    pub fn choosing_time(&self) -> Duration {
        self.choosing
    }

    /// Plays a round.
    pub fn play_round(&mut self, crew: &mut Crew) -> Result<()> {
        let global = self.federation.global();
        let questions = Questions { study: self.study, scene: self.scene, global };
        let uninformed = self.selection.selector.ages().clone();
        let asked = questions.answer(&mut self.selection, crew)?;
        let ages = self.selection.selector.ages();
        let first_ages = (*ages != uninformed).then(|| ages.iter().collect());
        let first_losses = self.selection.first_losses();
        let begin = Instant::now();
        let cohort = self.selection.selector.select(Availability::Everyone)?;
        self.choosing = begin.elapsed();
        // Who was asked and is chosen has the model of this round already.
        let only_asked = asked.iter().filter(|client| !cohort.clients.contains(client)).count();
        let wants_whole = self.selection.selector.policy().wants_whole_losses();
        let whole_losses =
            if wants_whole { questions.losses(&cohort.clients, crew)? } else { Vec::new() };
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
            whole_losses,
            root_mean_squares,
            asked: only_asked as u32,
            first_losses,
            first_ages,
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

    pub(super) fn into_logs(self) -> Vec<RoundLog> {
        self.logs
    }
}
