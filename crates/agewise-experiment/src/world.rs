//! What happens to clients: they are offline, drop out, join and leave.
//!
//! Everything is drawn from draws of its own streams, so it is the same for every policy under one seed.

mod availability;
mod presence;
mod selector;

pub use availability::{AvailabilityModel, RankedBy, RankedChance, TimedAvailability};
pub(crate) use presence::Presence;
pub(crate) use selector::{Movements, OLDEST, Selected, Untimely, WorldSelector, calibration};

use agewise_core::{Chance, Draws, Seed, Stream};

const ONLINE: Stream = Stream::custom(16);
const SWITCH: Stream = Stream::custom(17);
const DROPOUT: Stream = Stream::custom(18);
const LEAVE: Stream = Stream::custom(19);
const TIME_ZONE: Stream = Stream::custom(20);
const FAILING: Stream = Stream::custom(25);

/// What happens to clients in a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct World {
    /// The seed of the run.
    pub seed: Seed,
    /// When clients can be reached.
    pub availability: AvailabilityModel,
    /// The probability that a selected client never reports.
    pub dropout: f64,
    /// The share of clients that never report, however often they are selected.
    pub failing: f64,
    /// Clients that join in each round, as a share of the first population.
    pub join: f64,
    /// The probability that a client leaves for good in a round.
    pub leave: f64,
}

impl World {
    /// A world in which every client is always there and always reports.
    pub fn calm(seed: Seed) -> Self {
        let availability = AvailabilityModel::Always;
        Self { seed, availability, dropout: 0.0, failing: 0.0, join: 0.0, leave: 0.0 }
    }

    /// Whether everyone is always there and always reports, as the theory assumes.
    pub fn is_calm(&self) -> bool {
        self.availability == AvailabilityModel::Always
            && self.all_report()
            && self.join == 0.0
            && self.leave == 0.0
    }

    /// Whether every selected client reports.
    pub fn all_report(&self) -> bool {
        self.dropout == 0.0 && self.failing == 0.0
    }

    /// The same where joining and leaving is looked at in every step of the server, of which so many are a round.
    pub(crate) fn per_step(self, rounds_per_step: f64) -> Self {
        if rounds_per_step == 1.0 {
            return self;
        }
        let leave = 1.0 - libm::pow(1.0 - self.leave, rounds_per_step);
        Self { join: self.join * rounds_per_step, leave, ..self }
    }

    /// How many clients have ever been there at the beginning of a round.
    pub fn joined(&self, first: u32, round: u64) -> u32 {
        let joined = f64::from(first) * (1.0 + self.join * round as f64);
        joined.min(f64::from(u32::MAX)) as u32
    }

    /// Whether a client is online before round 0 (for [`AvailabilityModel::OnOff`], which has a memory).
    pub(crate) fn starts_online(&self, client: u32) -> bool {
        match self.availability {
            AvailabilityModel::OnOff { up, down } => {
                let draw = Draws::new(self.seed, ONLINE, u64::MAX).of(u64::from(client));
                Chance::new(up / (up + down)).wins(draw)
            }
            _ => true,
        }
    }

    /// The world in one round.
    pub(crate) fn at(&self, round: u64) -> RoundWorld {
        let draws = |stream| Draws::new(self.seed, stream, round);
        let (going_off, coming_on) = match self.availability {
            AvailabilityModel::OnOff { up, down } => {
                (Chance::new(1.0 / up), Chance::new(1.0 / down))
            }
            _ => (Chance::NEVER, Chance::NEVER),
        };
        RoundWorld {
            availability: self.availability,
            round,
            online: draws(ONLINE),
            switch: draws(SWITCH),
            dropout_draws: draws(DROPOUT),
            failing: self.failing,
            first_failing: Draws::new(self.seed, FAILING, 0).of(0).unit(),
            leave_draws: draws(LEAVE),
            time_zones: Draws::new(self.seed, TIME_ZONE, 0),
            chance: match self.availability {
                AvailabilityModel::Bernoulli(p) => Chance::new(p),
                _ => Chance::CERTAIN,
            },
            going_off,
            coming_on,
            dropout: Chance::new(self.dropout),
            all_report: self.all_report(),
            leave: Chance::new(self.leave),
        }
    }
}

/// The world in one round: which clients are online, drop out and leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundWorld {
    availability: AvailabilityModel,
    round: u64,
    online: Draws,
    switch: Draws,
    dropout_draws: Draws,
    failing: f64,
    first_failing: f64,
    leave_draws: Draws,
    time_zones: Draws,
    chance: Chance,
    going_off: Chance,
    coming_on: Chance,
    dropout: Chance,
    all_report: bool,
    leave: Chance,
}

impl RoundWorld {
    /// Whether everyone is online.
    pub(crate) fn everyone_is_online(&self) -> bool {
        self.availability == AvailabilityModel::Always
    }

    /// Whether every selected client reports.
    pub(crate) fn all_report(&self) -> bool {
        self.all_report
    }

    /// Whether clients may leave.
    pub(crate) fn clients_may_leave(&self) -> bool {
        self.leave != Chance::NEVER
    }

    /// Whether a client is online whose probability is its own.
    pub(crate) fn is_online_by_chance(&self, client: u32, chance: f64) -> bool {
        self.online.of(u64::from(client)).unit() < chance
    }

    /// Whether being online has a memory, kept by the caller as one bit per client.
    pub(crate) fn has_memory(&self) -> bool {
        matches!(self.availability, AvailabilityModel::OnOff { .. })
    }

    /// The memory of a client at the beginning of this round, from that of the last.
    pub(crate) fn switched(&self, client: u32, online: bool) -> bool {
        let draw = self.switch.of(u64::from(client));
        if online { !self.going_off.wins(draw) } else { self.coming_on.wins(draw) }
    }

    /// Whether a client is online; `remembered` is its memory, if there is one.
    pub(crate) fn is_online(&self, client: u32, remembered: bool) -> bool {
        let client = u64::from(client);
        match self.availability {
            // The last two ask for more than the number of the round; `WorldSelector` knows it.
            AvailabilityModel::Always
            | AvailabilityModel::Ranked(_)
            | AvailabilityModel::InSeconds(_) => true,
            AvailabilityModel::Bernoulli(_) => self.chance.wins(self.online.of(client)),
            AvailabilityModel::OnOff { .. } => remembered,
            AvailabilityModel::Diurnal { period, depth } => {
                let day = self.round as f64 / period + self.time_zones.of(client).unit();
                let night = 0.5 * (1.0 + libm::cos(std::f64::consts::TAU * day));
                self.online.of(client).unit() < 1.0 - depth * night
            }
        }
    }

    /// The number of the round.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Whether a selected client never reports.
    pub(crate) fn drops_out(&self, client: u32) -> bool {
        self.always_fails(client) || self.dropout.wins(self.dropout_draws.of(u64::from(client)))
    }

    /// Whether a client fails whenever it is selected. Those that do are spread evenly over the numbers, so that among any
    /// k neighbours they are the share of k that was asked for, rounded up or down.
    fn always_fails(&self, client: u32) -> bool {
        let before = |client: f64| (client * self.failing + self.first_failing).floor();
        self.failing > 0.0 && before(f64::from(client)) < before(f64::from(client) + 1.0)
    }

    /// Whether a client leaves for good before this round.
    pub(crate) fn leaves(&self, client: u32) -> bool {
        self.leave.wins(self.leave_draws.of(u64::from(client)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of online clients over 2,000 clients and 50 rounds; correlated in time for on-off, so the
    /// tolerance is 5 standard errors of 2,000 independent clients.
    #[test]
    fn the_share_online_is_what_was_asked_for() {
        for (text, share) in [("bernoulli:0.7", 0.7), ("on-off:20,5", 0.8), ("diurnal:24,0.8", 0.6)]
        {
            let world = World { availability: text.parse().unwrap(), ..World::calm(Seed(3)) };
            let mut memory: Vec<bool> = (0..2_000).map(|c| world.starts_online(c)).collect();
            let mut online = 0;
            for round in 0..48 {
                let now = world.at(round);
                for client in 0..2_000u32 {
                    let remembered = &mut memory[client as usize];
                    *remembered = now.switched(client, *remembered);
                    online += u32::from(now.is_online(client, *remembered));
                }
            }
            let measured = f64::from(online) / (48.0 * 2_000.0);
            let tolerance = 5.0 * (share * (1.0 - share) / 2_000.0f64).sqrt();
            assert!((measured - share).abs() < tolerance, "{text}: {measured}");
        }
    }

    #[test]
    fn those_that_fail_always_are_the_share_that_was_asked_for() {
        for (failing, clients, count) in [(0.01, 100, 1), (0.05, 100, 5), (0.2, 1_000, 200)] {
            for seed in 0..20 {
                let world = World { failing, ..World::calm(Seed(seed)) };
                let fails = |round| -> Vec<u32> {
                    let now = world.at(round);
                    (0..clients).filter(|&client| now.drops_out(client)).collect()
                };
                assert_eq!(fails(0).len(), count, "{failing} of {clients}, seed {seed}");
                assert_eq!(fails(0), fails(77), "the same in every round");
            }
        }
        assert!(World::calm(Seed(1)).is_calm() && World::calm(Seed(1)).all_report());
        assert!(!World { failing: 0.01, ..World::calm(Seed(1)) }.is_calm());
    }

    #[test]
    fn the_population_grows_in_a_straight_line() {
        let world = World { join: 0.045, ..World::calm(Seed(0)) };
        assert_eq!(world.joined(1_000, 0), 1_000);
        assert_eq!(world.joined(1_000, 200), 10_000);
    }
}
