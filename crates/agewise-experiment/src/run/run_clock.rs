//! The clock of a training run: the costs of its rounds, and how long its clients wait.

use crate::clock::{Asked, ClockLog, InFlight, RoundClock, Schedule, SecondsRecord, SecondsWaits};
use crate::experiment::{Experiment, SeedContext};
use crate::log::RoundLog;
use agewise_core::{Error, Population, Result};
use std::collections::BTreeSet;

/// The clock of a run, and what was seen of it.
pub(crate) struct RunClock<'a> {
    rounds: RoundClock<'a>,
    schedule: Schedule,
    waits: SecondsWaits,
    /// Who is at work, where there are no rounds.
    in_flight: Option<InFlight>,
    /// How many clients have been seen to join.
    joined: u32,
}

impl<'a> RunClock<'a> {
    /// The clock of a schedule under a seed; nothing where the experiment has no clock.
    pub(crate) fn new(
        experiment: &Experiment,
        schedule: Schedule,
        context: &'a SeedContext,
    ) -> Result<Option<Self>> {
        let Some(times) = &context.times else {
            return Ok(None);
        };
        let of_seed = (context.seed, times, &context.samples[..]);
        let sizes = (context.setting.clients(), context.setting.cohort());
        let rounds =
            RoundClock::new(of_seed, sizes, schedule, experiment.power(), experiment.batch())?;
        let waits = SecondsWaits::new(context.samples.len());
        let in_flight = schedule.updates_per_step().map(|updates| InFlight::new(sizes.1, updates));
        Ok(Some(Self { rounds, schedule, waits, in_flight, joined: 0 }))
    }

    /// A round begins with this population.
    pub(super) fn begin(&mut self, population: &Population) {
        for client in self.joined..population.clients() {
            self.waits.joins(client);
        }
        self.joined = population.clients();
        for client in population.left() {
            self.waits.leaves(client);
        }
    }

    /// The clients of a round whose updates come too late to count, and what the round costs.
    pub(crate) fn end(&self, asked: Asked<'_>) -> (Vec<u32>, ClockLog) {
        self.rounds.end(asked)
    }

    /// A round has ended as its log says, and these clients are credited; it is recorded behind the warm-up.
    pub(super) fn follow(
        &mut self,
        log: &RoundLog,
        credited: &[u32],
        is_recorded: bool,
    ) -> Result<()> {
        let asked = log.asked();
        let clock = log.clock.as_ref().filter(|clock| clock.worked.len() == asked.len());
        let clock = clock.ok_or_else(|| {
            let value = format!("round {} without its times", log.round);
            Error::new("log", value, "the seconds of the round and of everyone who was asked")
        })?;
        self.waits.pass(clock.costs.seconds);
        for (client, &seconds) in asked.into_iter().zip(&clock.worked) {
            self.waits.work(client, f64::from(seconds));
        }
        self.waits.credit(credited, is_recorded);
        Ok(())
    }

    /// The times of clients and who is at work, where there are no rounds.
    pub(super) fn without_rounds(&mut self) -> Option<(&RoundClock<'a>, &mut InFlight)> {
        Some((&self.rounds, self.in_flight.as_mut()?))
    }

    /// The steps in which those were asked that are at work.
    pub(super) fn steps_at_work(&self) -> BTreeSet<u64> {
        self.in_flight.as_ref().map_or_else(BTreeSet::new, InFlight::steps)
    }

    /// Whether a client that is late has failed.
    pub(super) fn late_have_failed(&self) -> bool {
        self.schedule.late_have_failed()
    }

    /// What a client says about how long it took.
    pub(super) fn reported(&self, client: u32) -> f32 {
        self.rounds.reported(client)
    }

    /// How long clients waited.
    pub(crate) fn seconds(&self) -> SecondsRecord {
        self.waits.finish()
    }
}
