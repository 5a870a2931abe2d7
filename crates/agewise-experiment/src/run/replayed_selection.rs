//! The selection of a training run: it follows from the logs alone.

use super::recorder::{RunMetrics, known, mean_weights};
use super::run_clock::RunClock;
use crate::clock::Schedule;
use crate::engines::counters::Counters;
use crate::engines::generic::credit_cohort;
use crate::engines::round::RoundSelection;
use crate::experiment::{Experiment, SeedContext};
use crate::log::RoundLog;
use crate::probes::loss_report;
use crate::record::{LoadRecord, RoundRecord, RunId};
use crate::world::{Movements, World, WorldSelector};
use agewise_core::metrics::CoParticipation;
use agewise_core::{Ages, Cohort, Error, Report, Result};
use agewise_train::Task;
use agewise_train::sketch::Sketcher;
use std::collections::{BTreeMap, BTreeSet};

/// The selection of a training run, and what was seen of it.
pub(crate) struct LoggedSelection<'a> {
    pub(crate) selector: WorldSelector,
    /// Of everyone who will ever join.
    counters: Vec<Counters>,
    metrics: RunMetrics,
    co_participation: CoParticipation,
    /// Who came and went before the present round.
    movements: Movements,
    /// Clients that could be selected when it began.
    available: u32,
    /// Where the policy looks at updates.
    pub(crate) sketcher: Option<Sketcher>,
    /// How long each client trains.
    durations: &'a [f32],
    /// Where there is a clock.
    pub(crate) clock: Option<RunClock<'a>>,
    warmup: u64,
}

impl<'a> LoggedSelection<'a> {
    pub(crate) fn new(
        experiment: &Experiment,
        id: RunId,
        task: &dyn Task,
        context: &'a SeedContext,
    ) -> Result<Self> {
        let params = experiment.params();
        let variant = experiment.variant(id)?;
        let (policy, calibrate) = (variant.policy(), experiment.calibrates(variant));
        let joining = context.samples.iter().skip(params.clients as usize);
        let newcomers = joining.map(|&samples| samples as f64).collect();
        let world = World { seed: context.seed, ..*experiment.world() };
        let world = world.per_step(experiment.rounds_per_step(variant));
        let clock = RunClock::new(experiment, variant.schedule(), context)?;
        let setting = experiment.asked_setting(variant.schedule(), &context.setting)?;
        let mut selector = WorldSelector::new(policy, setting, newcomers, world, calibrate)?;
        if let Some(chances) = &context.chances {
            selector = selector.with_chances(chances);
        }
        if let Some(updates) = variant.schedule().updates_per_step() {
            selector = selector.without_rounds(updates)?;
        }
        let rules = selector.selector().policy();
        let sketches = rules.needs().update_sketches;
        let all_count = world.is_calm() && variant.schedule() == Schedule::Sync;
        let (weighting, is_calm) = (policy.weighting(), all_count);
        let means = mean_weights(rules, weighting, &context.setting, is_calm);
        let everyone = context.samples.len();
        let warmup = experiment.steps_in(variant, params.warmup);
        let metrics = RunMetrics::new(everyone as u64, experiment.steps_of(variant), warmup, means);
        Ok(Self {
            selector,
            counters: vec![Counters::default(); everyone],
            metrics,
            co_participation: CoParticipation::new(everyone as u32),
            movements: Movements::default(),
            available: 0,
            sketcher: sketches.then(|| Sketcher::for_task(task, context.seed)),
            durations: &context.durations,
            clock,
            warmup,
        })
    }

    /// Plays rounds as their logs say.
    pub(crate) fn replay(&mut self, logs: &[RoundLog]) -> Result<()> {
        for log in logs {
            self.begin()?;
            if self.has_no_rounds() {
                self.replay_step(log)?;
            }
            self.follow(log, &[])?;
        }
        Ok(())
    }

    /// Whether clients work without rounds.
    fn has_no_rounds(&mut self) -> bool {
        self.clock.as_mut().is_some_and(|clock| clock.without_rounds().is_some())
    }

    /// The steps in which those were asked that are at work.
    pub(super) fn steps_at_work(&self) -> BTreeSet<u64> {
        self.clock.as_ref().map_or_else(BTreeSet::new, RunClock::steps_at_work)
    }

    /// Begins the next round.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if let Some(clock) = &self.clock {
            self.selector.go_on(clock.now());
        }
        self.movements = self.selector.begin()?;
        // Without rounds a step waits for clients whenever it needs them.
        let idle = if self.has_no_rounds() { 0.0 } else { self.selector.wait() };
        if let Some(clock) = &mut self.clock {
            clock.begin(self.selector.selector().population(), idle);
        }
        self.available = self.selector.available();
        Ok(())
    }

    /// Clients that could be selected when the present round began.
    pub(crate) fn available(&self) -> u32 {
        self.available
    }

    /// Ends a round that has begun as its log says. Durations follow from the configuration; sketches are not in the log
    /// and come beside, where they are known.
    pub(crate) fn follow(&mut self, log: &RoundLog, sketches: &[Option<Vec<f32>>]) -> Result<()> {
        self.check(log)?;
        self.restore_first_round(log)?;
        let mut movements = std::mem::take(&mut self.movements);
        if self.metrics.is_empty() {
            // Probes may have decided the first ages; these are of those who came and went already.
            movements = Movements::default();
            self.metrics.begin(&self.selector.ages_here().collect());
        }
        let taken = log.losses.iter().enumerate().filter(|(_, loss)| loss.is_some());
        let taken: Vec<usize> = taken.map(|(place, _)| place).collect();
        let report = |&place: &usize| Report {
            loss: log.whole_losses.get(place).copied().or(log.losses[place]),
            duration: self.duration(log.clients[place]),
            root_mean_square: log.root_mean_squares.get(place).copied().flatten(),
            sketch: sketches.get(place).and_then(Option::as_deref),
            ..Report::plain(log.clients[place])
        };
        let reports: Vec<Report<'_>> = taken.iter().map(report).collect();
        // Those who are credited.
        let cohort = Cohort {
            round: log.round,
            clients: taken.iter().map(|&place| log.clients[place]).collect(),
            draws: vec![1; taken.len()],
            weights: taken.iter().map(|&place| log.weights[place]).collect(),
            forced: log.forced,
        };
        let ages = self.selector.selector().ages();
        let credited = credit_cohort(&mut self.counters, &cohort, ages, self.warmup);
        if log.round >= self.warmup {
            self.co_participation.record(&cohort.clients);
        }
        let selection = RoundSelection {
            available: Some(u64::from(log.available)),
            selected: log.selected(),
            reported: log.clients.len() as u64,
            forced: log.forced,
            joined: movements.joined,
            left: movements.left.into_iter().collect(),
        };
        self.metrics.record(self.selector.interval(), &selection, &credited);
        // An update that was not taken is no better than none.
        let refused = log.clients.iter().zip(&log.losses).filter(|(_, loss)| loss.is_none());
        let lost = log.dropped.iter().copied();
        let mut failed: Vec<u32> = lost.chain(refused.map(|(&client, _)| client)).collect();
        let mut arrived = selection.reported;
        if let Some(clock) = &mut self.clock {
            clock.follow(log, &cohort.clients, log.round >= self.warmup)?;
            if clock.late_have_failed() {
                failed.extend(&log.late);
            } else {
                // They were asked in surplus, and would have delivered.
                arrived += log.late.len() as u64;
            }
        }
        self.selector.finish(arrived, &reports, &failed)
    }

    /// What a client says about how long it took.
    fn duration(&self, client: u32) -> Option<f32> {
        match &self.clock {
            Some(clock) => Some(clock.reported(client)),
            None => self.durations.get(client as usize).copied(),
        }
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
        let available = self.available;
        if log.available != available {
            let value = format!("{} available in round {round}", log.available);
            return Err(Error::new("log", value, format!("{available}, as the world has it")));
        }
        Ok(())
    }

    /// What probes said and decided before the first round.
    fn restore_first_round(&mut self, log: &RoundLog) -> Result<()> {
        let selector = self.selector.selector_mut();
        if let Some(ages) = &log.initial_ages {
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
        (self.counters[client as usize].selections, age)
    }

    /// The rounds so far, and the load of the clients; nothing before the first round.
    pub(crate) fn finish(self) -> (Vec<RoundRecord>, Option<LoadRecord>) {
        if self.metrics.is_empty() {
            return (Vec::new(), None);
        }
        let joined = self.selector.selector().population().clients() as usize;
        let mut selections = BTreeMap::new();
        for counters in &self.counters[..joined] {
            *selections.entry(counters.selections).or_default() += 1;
        }
        let (rows, load) = self.metrics.finish(selections);
        let never_together = known(self.co_participation.never_together());
        let co_participation_spread = known(self.co_participation.relative_spread());
        (rows, Some(LoadRecord { never_together, co_participation_spread, ..load }))
    }
}
