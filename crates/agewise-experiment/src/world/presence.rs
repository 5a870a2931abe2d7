//! Who is online at which second, where availability follows a clock.
//!
//! It is a pure function of the seed and the time, whoever is asked and whatever the schedule: under one seed every variant
//! meets the same clients at the same second. A client is there or away for whole slots, or (`on-off`) for stays of random
//! length, one after the other.

use super::availability::{SLOTS_OF_A_DAY, TimedAvailability};
use super::{ONLINE, SWITCH, TIME_ZONE};
use agewise_core::{Draws, Seed};

/// Who is online, second by second.
#[derive(Debug)]
pub(crate) struct Presence {
    model: TimedAvailability,
    seed: Seed,
    now: f64,
    /// The number of the slot of this moment, where there are slots.
    slot: u64,
    /// The probability of each client, where that follows what clients are.
    chances: Vec<f64>,
    /// The present stay of each client, where there are no slots.
    stays: Vec<Stay>,
}

/// The time for which a client is there, or away.
#[derive(Debug, Clone, Copy)]
struct Stay {
    is_online: bool,
    until: f64,
    number: u64,
}

impl Presence {
    /// At second 0.
    pub(crate) fn new(model: TimedAvailability, seed: Seed) -> Self {
        Self { model, seed, now: 0.0, slot: 0, chances: Vec::new(), stays: Vec::new() }
    }

    /// The same where each client has a probability of its own.
    pub(super) fn with_chances(self, chances: Vec<f64>) -> Self {
        Self { chances, ..self }
    }

    /// So many clients have joined by now.
    pub(super) fn admit(&mut self, clients: u32) {
        let TimedAvailability::OnOff { up, down } = self.model else {
            return;
        };
        let first = Draws::new(self.seed, ONLINE, u64::MAX);
        for client in self.stays.len() as u32..clients {
            // As if it had always been there: what is left of an exponential stay is as long as a whole one.
            let is_online = first.of(u64::from(client)).unit() < up / (up + down);
            let until = self.now + self.length(client, 0, is_online);
            self.stays.push(Stay { is_online, until, number: 0 });
        }
    }

    /// The seconds of a stay.
    fn length(&self, client: u32, number: u64, is_online: bool) -> f64 {
        let TimedAvailability::OnOff { up, down } = self.model else {
            return f64::INFINITY;
        };
        let draw = Draws::new(self.seed, SWITCH, number).of(u64::from(client)).unit();
        -libm::log(1.0 - draw) * if is_online { up } else { down }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Time goes on to this moment; it never goes back.
    pub(super) fn advance(&mut self, to: f64) {
        self.now = self.now.max(to);
        if let Some(seconds) = self.model.slot() {
            self.slot = slot_of(self.now, seconds);
        }
        for client in 0..self.stays.len() {
            let mut stay = self.stays[client];
            while stay.until <= self.now {
                (stay.is_online, stay.number) = (!stay.is_online, stay.number + 1);
                stay.until += self.length(client as u32, stay.number, stay.is_online);
            }
            self.stays[client] = stay;
        }
    }

    /// The next moment at which someone may come or go.
    pub(super) fn next_change(&self) -> f64 {
        match self.model.slot() {
            Some(seconds) => (self.slot + 1) as f64 * seconds,
            None => self.stays.iter().map(|stay| stay.until).fold(f64::INFINITY, f64::min),
        }
    }

    /// Whether a client is online now.
    pub(super) fn is_online(&self, client: u32) -> bool {
        match self.stays.get(client as usize) {
            Some(stay) => stay.is_online,
            None => self.is_online_in(client, self.slot),
        }
    }

    fn is_online_in(&self, client: u32, slot: u64) -> bool {
        let chance = match self.model {
            TimedAvailability::Bernoulli { chance, .. } => chance,
            TimedAvailability::Ranked { .. } => {
                self.chances.get(client as usize).copied().unwrap_or(1.0)
            }
            TimedAvailability::Diurnal { depth, .. } => {
                let zone = Draws::new(self.seed, TIME_ZONE, 0).of(u64::from(client)).unit();
                let day = slot as f64 / SLOTS_OF_A_DAY + zone;
                1.0 - depth * 0.5 * (1.0 + libm::cos(std::f64::consts::TAU * day))
            }
            TimedAvailability::OnOff { .. } => 1.0,
        };
        Draws::new(self.seed, ONLINE, slot).of(u64::from(client)).unit() < chance
    }

    /// When a client that is online now goes offline, if that is before this moment.
    pub(crate) fn offline_before(&self, client: u32, end: f64) -> Option<f64> {
        if let Some(stay) = self.stays.get(client as usize) {
            return Some(stay.until).filter(|until| *until < end);
        }
        let seconds = self.model.slot()?;
        let later = (self.slot + 1..).map(|slot| (slot, slot as f64 * seconds));
        let mut within = later.take_while(|(_, begin)| *begin < end);
        within.find(|&(slot, _)| !self.is_online_in(client, slot)).map(|(_, begin)| begin)
    }
}

/// The slot that a moment is in; a slot begins at its number times its length, whatever a quotient is rounded to.
fn slot_of(moment: f64, seconds: f64) -> u64 {
    let near = (moment / seconds).floor();
    if (near + 1.0) * seconds <= moment {
        near as u64 + 1
    } else if near * seconds > moment {
        (near as u64).saturating_sub(1)
    } else {
        near as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::AvailabilityModel;

    const CLIENTS: u32 = 2_000;

    fn presence(text: &str) -> Presence {
        let model = text.parse::<AvailabilityModel>().unwrap().timed().unwrap();
        let mut presence = Presence::new(model, Seed(3));
        presence.admit(CLIENTS);
        presence
    }

    fn online(presence: &Presence) -> Vec<u32> {
        (0..CLIENTS).filter(|&client| presence.is_online(client)).collect()
    }

    /// The share of 2,000 clients over a day of 48 looks, every half hour. Looks are correlated, so that the tolerance is
    /// five standard errors of 2,000 independent clients.
    #[test]
    fn the_share_online_is_what_was_asked_for() {
        for (text, share) in
            [("bernoulli:0.7,900s", 0.7), ("on-off:3600s,900s", 0.8), ("diurnal:86400s,0.8", 0.6)]
        {
            let mut presence = presence(text);
            let mut sum = 0;
            for look in 0..48 {
                presence.advance(1_800.0 * f64::from(look));
                sum += online(&presence).len();
            }
            let measured = sum as f64 / (48.0 * f64::from(CLIENTS));
            let tolerance = 5.0 * (share * (1.0 - share) / f64::from(CLIENTS)).sqrt();
            assert!((measured - share).abs() < tolerance, "{text}: {measured}");
        }
    }

    /// However time goes on, the same clients are there at the same second.
    #[test]
    fn who_is_there_follows_from_the_second_alone() {
        for text in ["bernoulli:0.5,60s", "on-off:300s,100s", "diurnal:7200s,0.9"] {
            let (mut often, mut once) = (presence(text), presence(text));
            for step in 0..100 {
                often.advance(7.7 * f64::from(step));
            }
            once.advance(7.7 * 99.0);
            assert_eq!(online(&often), online(&once), "{text}");
            often.advance(0.0);
            assert_eq!(online(&often), online(&once), "time does not go back");
        }
    }

    /// A client that is said to leave at a moment is there until then and away at it; one that is not stays to the end.
    #[test]
    fn leaving_is_foreseen() {
        for text in ["bernoulli:0.8,60s", "on-off:300s,100s", "diurnal:7200s,0.9"] {
            let mut begin = presence(text);
            begin.advance(100.0);
            let end = 500.0;
            let said = |client| begin.offline_before(client, end);
            let (leaving, staying): (Vec<u32>, Vec<u32>) =
                online(&begin).into_iter().partition(|&client| said(client).is_some());
            assert!(leaving.len() > 100 && staying.len() > 20, "{text}");
            let mut later = presence(text);
            later.advance(100.0);
            while later.now() < end {
                for &client in leaving.iter().chain(&staying) {
                    let is_gone = said(client).is_some_and(|moment| moment <= later.now());
                    let is_first = said(client) == Some(later.now());
                    assert!(later.is_online(client) || is_gone, "{text}, {client}");
                    assert!(!(is_first && later.is_online(client)), "{text}, {client}");
                }
                let next = later.next_change();
                assert!(next > later.now());
                later.advance(next);
            }
        }
    }

    #[test]
    fn a_slot_begins_at_its_number_times_its_length() {
        for seconds in [0.1, 0.3, 7.0, 3_600.0, 1e-3] {
            for slot in (0..2_000).chain([1 << 30, 1 << 40]) {
                assert_eq!(slot_of(slot as f64 * seconds, seconds), slot, "{seconds}");
            }
            assert_eq!(slot_of(2.5 * seconds, seconds), 2);
        }
    }

    #[test]
    fn clients_that_join_are_there_as_often_as_others() {
        let model = "on-off:300s,100s".parse::<AvailabilityModel>().unwrap().timed().unwrap();
        let mut presence = Presence::new(model, Seed(3));
        presence.admit(10);
        presence.advance(1e5);
        presence.admit(CLIENTS);
        // 1,990 clients with the probability 0.75: a deviation of 0.0097.
        let share = online(&presence).len() as f64 / f64::from(CLIENTS);
        assert!((share - 0.75).abs() < 0.05, "{share}");
    }
}
