//! The clock of a training run: the costs of its rounds, and how long its clients wait.

use crate::clock::{Asked, ClockLog, InFlight, RoundClock, Schedule, SecondsRecord, SecondsWaits};
use crate::experiment::{Experiment, SeedContext};
use crate::log::RoundLog;
use crate::world::{TimedAvailability, Untimely};
use agewise_core::{Error, Population, Result};
use std::collections::BTreeSet;

/// The most slots of availability in which a client may be at work: each of them is looked at.
const MOST_SLOTS: f64 = 1e6;

/// The clock of a run, and what was seen of it.
pub(crate) struct RunClock<'a> {
    rounds: RoundClock<'a>,
    schedule: Schedule,
    waits: SecondsWaits,
    /// Who is at work, where there are no rounds.
    in_flight: Option<InFlight>,
    /// How many clients have been seen to join.
    joined: u32,
    /// The seconds before the present round in which no client was there.
    idle: f64,
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
        let availability = experiment.world().availability;
        let slot = availability.timed().and_then(TimedAvailability::slot);
        let least = times.longest() / MOST_SLOTS;
        if slot.is_some_and(|slot| slot < least) {
            let expected = format!(
                "slots of at least {least:.3} s: the slowest client works for longer than {MOST_SLOTS:e} of these"
            );
            return Err(Error::new("availability", availability, expected));
        }
        let of_seed = (context.seed, times, &context.samples[..]);
        let sizes = (context.setting.clients(), context.setting.cohort());
        let rounds =
            RoundClock::new(of_seed, sizes, schedule, experiment.power(), experiment.batch())?;
        let waits = SecondsWaits::new(context.samples.len());
        let in_flight = schedule.updates_per_step().map(|updates| InFlight::new(sizes.1, updates));
        Ok(Some(Self { rounds, schedule, waits, in_flight, joined: 0, idle: 0.0 }))
    }

    /// The second at which the next round begins.
    pub(super) fn now(&self) -> f64 {
        self.in_flight.as_ref().map_or(self.waits.now(), InFlight::now)
    }

    /// A round begins with this population, after so many seconds in which no client was there.
    pub(super) fn begin(&mut self, population: &Population, idle: f64) {
        self.idle = idle;
        for client in self.joined..population.clients() {
            self.waits.joins(client);
        }
        self.joined = population.clients();
        for client in population.left() {
            self.waits.leaves(client);
        }
    }

    /// The clients of a round that deliver and whose updates do not count, and what the round costs.
    pub(crate) fn end(&self, asked: Asked<'_>) -> (Untimely, ClockLog) {
        let (untimely, mut log) = self.rounds.end(asked);
        log.costs.seconds += self.idle;
        (untimely, log)
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
