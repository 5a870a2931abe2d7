//! The selection of a training run: it follows from the logs alone.

use super::recorder::{known, look_every};
use crate::experiment::{Experiment, SeedContext};
use crate::log::RoundLog;
use crate::probes::loss_report;
use crate::record::{LoadRecord, RoundRow, RunId};
use crate::world::{World, WorldSelector};
use agewise_core::metrics::{Load, Participation};
use agewise_core::{Ages, Cohort, Error, Report, Result};
use agewise_train::Task;
use agewise_train::sketch::Sketcher;
use std::collections::BTreeMap;

/// The lengths of the windows in which participation is counted.
const WINDOWS: [u32; 3] = [10, 20, 50];

/// The selection of a training run, and what was seen of it.
pub(crate) struct LoggedSelection<'a> {
    pub(crate) selector: WorldSelector,
    participation: Participation,
    /// Where the policy looks at updates.
    pub(crate) sketcher: Option<Sketcher>,
    /// How long each client trains.
    durations: &'a [f32],
    warmup: u64,
    look_every: u64,
    rows: Vec<RoundRow>,
    ages: Vec<(u64, Vec<(u64, u64)>)>,
}

impl<'a> LoggedSelection<'a> {
    pub(crate) fn new(
        experiment: &Experiment,
        id: RunId,
        task: &dyn Task,
        context: &'a SeedContext,
    ) -> Result<Self> {
        let params = experiment.params();
        let policy = experiment.variant(id)?.policy();
        let joining = context.samples.iter().skip(params.clients as usize);
        let newcomers = joining.map(|&samples| samples as f64).collect();
        let world = World { seed: context.seed, ..*experiment.world() };
        let setting = context.setting.clone();
        let selector = WorldSelector::new(policy, setting, newcomers, world, params.calibrate)?;
        let sketches = selector.selector().policy().needs().update_sketches;
        Ok(Self {
            selector,
            participation: Participation::new(context.samples.len() as u32, &WINDOWS),
            sketcher: sketches.then(|| Sketcher::for_task(task, context.seed)),
            durations: &context.durations,
            warmup: params.warmup,
            look_every: look_every(params.rounds),
            rows: Vec::new(),
            ages: Vec::new(),
        })
    }

    /// Plays rounds as their logs say.
    pub(crate) fn replay(&mut self, logs: &[RoundLog]) -> Result<()> {
        for log in logs {
            self.selector.begin()?;
            self.follow(log, &[])?;
        }
        Ok(())
    }

    /// Ends a round that has begun as its log says. Durations follow from the configuration; sketches are not in the log
    /// and come beside, where they are known.
    pub(crate) fn follow(&mut self, log: &RoundLog, sketches: &[Option<Vec<f32>>]) -> Result<()> {
        self.check(log)?;
        self.restore_first_round(log)?;
        self.look_at_ages(log.round);
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
        let cohort = Cohort {
            round: log.round,
            clients: log.clients.clone(),
            draws: vec![1; log.clients.len()],
            weights: log.weights.clone(),
            forced: log.forced,
        };
        let interval = self.selector.interval();
        let reported = log.clients.len() as u64;
        if log.round >= self.warmup {
            self.participation.record(&cohort, self.selector.selector().ages());
        }
        self.selector.finish(reported, &reports)?;
        self.rows.push(RoundRow {
            available: Some(u64::from(log.available)),
            selected: log.selected(),
            reported,
            forced: log.forced,
            interval,
            sigma: known(self.participation.sigma()),
        });
        Ok(())
    }

    fn check(&self, log: &RoundLog) -> Result<()> {
        let (round, clients) = (self.selector.selector().round(), log.clients.len());
        let (losses, weights) = (log.losses.len(), log.weights.len());
        let complete = [losses, weights] == [clients; 2]
            && [log.root_mean_squares.len(), log.whole_losses.len()]
                .iter()
                .all(|figures| [0, clients].contains(figures));
        if log.round != round || !complete {
            let value = format!("round {} with {losses} losses, {weights} weights", log.round);
            let expected = format!("round {round} with one of each for {clients}");
            return Err(Error::new("log", value, expected));
        }
        let population = self.selector.selector().population().clients();
        if let Some(wrong) = log.clients.iter().find(|&&client| client >= population) {
            return Err(Error::new("log", wrong, "the number of a client"));
        }
        let available = self.selector.available();
        if log.available != available {
            let value = format!("{} available in round {round}", log.available);
            return Err(Error::new("log", value, format!("{available}, as the world has it")));
        }
        Ok(())
    }

    /// What probes said and decided before the first round.
    fn restore_first_round(&mut self, log: &RoundLog) -> Result<()> {
        let selector = self.selector.selector_mut();
        if let Some(ages) = &log.first_ages {
            if log.round != 0 {
                return Err(Error::new(
                    "log",
                    format!("first ages in round {}", log.round),
                    "none",
                ));
            }
            let mut state = selector.state();
            state.population.ages = Ages::new(ages.iter().copied());
            selector.restore(state)?;
        }
        let said = log.first_losses.iter().map(|&(client, loss)| loss_report(client, loss));
        let said: Vec<Report<'_>> = said.collect();
        if said.is_empty() { Ok(()) } else { selector.observe(&said) }
    }

    fn look_at_ages(&mut self, round: u64) {
        if round.is_multiple_of(self.look_every) {
            let mut counts = BTreeMap::new();
            for age in self.selector.ages_here() {
                *counts.entry(age).or_default() += 1;
            }
            self.ages.push((round, counts.into_iter().collect()));
        }
    }

    /// Before the first round, the losses that clients said when they were probed: none has reported any other then.
    pub(crate) fn first_losses(&self) -> Vec<(u32, f32)> {
        let selector = self.selector.selector();
        let clients = 0..selector.population().clients();
        let loss = |client| Some((client, selector.reports().loss(client)?));
        if selector.round() == 0 { clients.filter_map(loss).collect() } else { Vec::new() }
    }

    /// The clients with a sketch of their last update, and all sketches one after the other.
    pub(crate) fn sketches(&self) -> (Vec<u32>, Vec<f32>) {
        let all = || self.selector.selector().reports().sketches();
        let clients = all().map(|(client, _)| client).collect();
        (clients, all().flat_map(|(_, sketch)| sketch).copied().collect())
    }

    /// Takes back sketches that were stored.
    pub(crate) fn restore_sketches(&mut self, clients: &[u32], numbers: &[f32]) -> Result<()> {
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
        self.selector.selector_mut().observe(&said)
    }

    /// How often a client took part, and its age.
    pub(crate) fn client(&self, client: u32) -> (u32, u64) {
        let population = self.selector.selector().population();
        let age = if client < population.clients() { population.ages().of(client) } else { 0 };
        (self.participation.selections()[client as usize], age)
    }

    /// The rounds so far, and the load of the clients; nothing before the first round.
    pub(crate) fn finish(self) -> (Vec<RoundRow>, Option<LoadRecord>) {
        let load = (!self.rows.is_empty()).then(|| self.load());
        (self.rows, load)
    }

    fn load(&self) -> LoadRecord {
        let selector = self.selector.selector();
        let summary = self.participation.summary(selector.ages());
        let joined = selector.population().clients() as usize;
        let mut selections = BTreeMap::new();
        for &count in &self.participation.selections()[..joined] {
            *selections.entry(count).or_default() += 1;
        }
        let mut load = Load::default();
        for (&count, &clients) in &selections {
            load.record_many(u64::from(count), clients);
        }
        let waiting = self.selector.ages_here().max().unwrap_or(0);
        LoadRecord {
            intervals: self.participation.intervals().histogram().collect(),
            mean_interval: known(summary.mean_interval),
            var_interval: known(summary.var_interval),
            sigma: known(summary.sigma),
            mean_covariance: known(summary.mean_covariance),
            cohort_mean: summary.cohort_mean,
            cohort_sd: summary.cohort_sd,
            cohort_min: summary.cohort_min,
            cohort_max: summary.cohort_max,
            jain: known(load.jain()),
            never_reached: load.never_selected(),
            longest_wait: self.participation.intervals().longest().max(waiting),
            window_sd: summary.window_sd.into_iter().filter(|(_, sd)| sd.is_finite()).collect(),
            selections: selections.into_iter().collect(),
            ages: self.ages.clone(),
            never_met: known(summary.never_met),
            meeting_spread: known(summary.meeting_spread),
        }
    }
}
