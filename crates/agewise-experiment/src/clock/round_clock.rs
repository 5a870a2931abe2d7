//! The clock of a run: how its rounds end, and what they cost.

use super::client_times::ClientTimes;
use super::costs::{ClockLog, Power, RoundCosts, Work};
use super::schedule::{Member, Schedule, SeedSchedule};
use crate::world::{Presence, Untimely};
use agewise_core::{Draws, ProbeKind, Result, Seed, Stream};
use std::collections::BTreeMap;

/// When clients drop out of a round.
const MOMENT: Stream = Stream::custom(24);

/// What the forward pass over a sample costs beside training on it, which goes back as well and updates.
const FORWARD_SHARE: f64 = 1.0 / 3.0;

/// The clock of a run.
#[derive(Debug)]
pub(crate) struct RoundClock<'a> {
    seed: Seed,
    times: &'a ClientTimes,
    schedule: SeedSchedule,
    power: Option<Power>,
    /// The samples of each client, and those of a batch: what is looked at for probes.
    samples: &'a [u64],
    batch: u64,
}

/// The clients of a round as far as they are known when they are asked, and the probes before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) round: u64,
    /// Those that deliver if they are given the time, in increasing order.
    pub(crate) delivering: &'a [u32],
    /// Those that drop out, in increasing order.
    pub(crate) dropped: &'a [u32],
    pub(crate) probed: &'a BTreeMap<u32, ProbeKind>,
    /// Who is online when, where that follows the clock.
    pub(crate) presence: Option<&'a Presence>,
}

impl<'a> RoundClock<'a> {
    /// The clock for the clients of a seed, of whom so many are there at first.
    pub(crate) fn new(
        (seed, times, samples): (Seed, &'a ClientTimes, &'a [u64]),
        (clients, cohort): (u32, u32),
        schedule: Schedule,
        power: Option<Power>,
        batch: u32,
    ) -> Result<Self> {
        times.check()?;
        let schedule = schedule.for_seed(times, clients, cohort)?;
        Ok(Self { seed, times, schedule, power, samples, batch: u64::from(batch) })
    }

    /// The clients of a round that deliver and whose updates do not count, and what the round costs.
    pub(crate) fn end(&self, asked: Asked<'_>) -> (Untimely, ClockLog) {
        let probing = self.add_probes(asked.probed, &mut RoundCosts::default());
        let (members, offline) = self.members(asked, probing);
        let mut ended = self.schedule.end(&members);
        // Who would have gone offline only after the end was told to stop before.
        let (offline, stopped): (Vec<Member>, Vec<Member>) =
            offline.into_iter().partition(|member| member.end <= ended.seconds);
        ended.late.extend(stopped.iter().map(|member| member.client));
        ended.late.sort_unstable();
        let mut costs = RoundCosts { seconds: ended.seconds, ..self.no_costs() };
        let mut worked = Vec::with_capacity(members.len());
        for member in &members {
            let work = Work {
                seconds: member.end.min(ended.seconds),
                has_model: asked.probed.contains_key(&member.client),
                counts: member.delivers && ended.late.binary_search(&member.client).is_err(),
            };
            self.add_work(&mut costs, member.client, work);
            worked.push(work.seconds as f32);
        }
        costs.seconds += self.add_probes(asked.probed, &mut costs);
        let offline = offline.iter().map(|member| member.client).collect();
        (Untimely { late: ended.late, offline }, ClockLog { costs, worked })
    }

    /// Everyone who was asked, and those of them that would have delivered and go offline before; both in increasing
    /// order. Their work begins so many seconds after that of probes.
    fn members(&self, asked: Asked<'_>, probing: f64) -> (Vec<Member>, Vec<Member>) {
        let mut offline = Vec::new();
        let mut end = |client: u32, delivers: bool| {
            let has_model = asked.probed.contains_key(&client);
            let end = self.work_of(asked.round, client, has_model, delivers);
            let leaves = asked.presence.and_then(|presence| {
                let begin = presence.now() + probing;
                let moment = presence.offline_before(client, begin + end)?;
                Some((moment - begin).clamp(0.0, end))
            });
            let Some(end) = leaves else {
                return Member { client, end, delivers };
            };
            let member = Member { client, end, delivers: false };
            if delivers {
                offline.push(member);
            }
            member
        };
        let done: Vec<Member> = asked.delivering.iter().map(|&client| end(client, true)).collect();
        let lost = asked.dropped.iter().map(|&client| end(client, false));
        let mut members: Vec<Member> = done.into_iter().chain(lost).collect();
        members.sort_by_key(|member| member.client);
        (members, offline)
    }

    /// How long a client works that is asked in this round, until it is done or drops out at a random moment.
    pub(super) fn work_of(&self, round: u64, client: u32, has_model: bool, delivers: bool) -> f64 {
        let download = if has_model { 0.0 } else { self.times.download(client) };
        let whole = download + self.times.training(client) + self.times.upload(client);
        if delivers {
            return whole;
        }
        whole * Draws::new(self.seed, MOMENT, round).of(u64::from(client)).unit()
    }

    /// The costs of nothing; in joules where power is known.
    pub(super) fn no_costs(&self) -> RoundCosts {
        RoundCosts { joules: self.power.map(|_| 0.0), ..RoundCosts::default() }
    }

    /// Adds the work of a client.
    pub(super) fn add_work(&self, costs: &mut RoundCosts, client: u32, work: Work) {
        costs.add_work(self.times, self.power, client, work);
    }

    /// Adds what probes cost but their time. Probes take place before clients are selected, who wait for the slowest of
    /// them: so many seconds.
    pub(crate) fn add_probes(
        &self,
        probed: &BTreeMap<u32, ProbeKind>,
        costs: &mut RoundCosts,
    ) -> f64 {
        let mut slowest = 0.0f64;
        for (&client, kind) in probed {
            let samples = self.samples[client as usize];
            let computing = match kind {
                ProbeKind::Loss => FORWARD_SHARE * samples as f64 / self.times.speed(client),
                ProbeKind::UpdateStep => samples.min(self.batch) as f64 / self.times.speed(client),
                ProbeKind::UpdateRound => self.times.training(client),
            };
            let download = self.times.download(client);
            let seconds = download + computing;
            slowest = slowest.max(seconds);
            costs.client_seconds += seconds;
            costs.bytes_down += self.times.model_bytes();
            if let (Some(power), Some(joules)) = (self.power, &mut costs.joules) {
                *joules += power.link * download + power.computing * computing;
            }
        }
        slowest
    }

    /// What a client says about how long it takes.
    pub(crate) fn reported(&self, client: u32) -> f32 {
        self.times.turnaround(client) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rates::{Columns, RateDistribution};

    /// The mean of the k-th smallest of n values exp(S z), z standard normal: the integral over the density of an order
    /// statistic, by Simpson's rule.
    fn order_statistic(spread: f64, k: u32, n: u32) -> f64 {
        let below = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
        let density = |z: f64| (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        let choose = (1..=n - k).fold(1.0, |c, i| c * f64::from(k - 1 + i) / f64::from(i));
        let factor = f64::from(n) * choose;
        let value = |z: f64| {
            let rank = below(z).powi(k as i32 - 1) * below(-z).powi((n - k) as i32);
            factor * (spread * z).exp() * density(z) * rank
        };
        let (low, steps) = (-9.0, 3_600);
        let width = 18.0 / f64::from(steps);
        let weight = |step: i32| match step {
            0 => 1.0,
            step if step == steps => 1.0,
            step if step % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let sum: f64 =
            (0..=steps).map(|step| weight(step) * value(low + width * f64::from(step))).sum();
        sum * width / 3.0
    }

    /// The quadrature itself, on what is known: the mean of one lognormal, and the density of a rank adds up to 1.
    #[test]
    fn quadrature_is_right() {
        assert!((order_statistic(0.7, 1, 1) - (0.245f64).exp()).abs() < 1e-9);
        assert!((order_statistic(0.0, 10, 13) - 1.0).abs() < 1e-9);
        // The mean of all ranks is the mean of the distribution.
        let all: f64 = (1..=13).map(|k| order_statistic(1.0, k, 13)).sum();
        assert!((all / 13.0 - (0.5f64).exp()).abs() < 1e-9);
    }

    /// Rounds of clients that nobody was before: independent draws. The mean over 4,000 rounds is within five standard
    /// errors of the closed form.
    #[test]
    fn rounds_last_as_long_as_order_statistics_say() {
        const ROUNDS: u32 = 4_000;
        let nothing = BTreeMap::new();
        for (schedule, asked, k) in [("sync", 10, 10), ("over-select:1.3", 13, 10)] {
            let clients = asked * ROUNDS;
            let speeds: RateDistribution = "lognormal:1@1".parse().unwrap();
            let samples = vec![1; clients as usize];
            let columns = Columns::new();
            let times = ClientTimes::draw((&speeds, None), &columns, Seed(3), &samples, 0).unwrap();
            let schedule: Schedule = schedule.parse().unwrap();
            let of_seed = (Seed(3), &times, &samples[..]);
            let clock = RoundClock::new(of_seed, (clients, 10), schedule, None, 1).unwrap();
            let seconds = |round: u32| {
                let delivering: Vec<u32> = (round * asked..(round + 1) * asked).collect();
                let asked = Asked {
                    round: u64::from(round),
                    delivering: &delivering,
                    dropped: &[],
                    probed: &nothing,
                    presence: None,
                };
                let (untimely, log) = clock.end(asked);
                assert_eq!(untimely.late.len() as u32, delivering.len() as u32 - 10);
                log.costs.seconds
            };
            let all: Vec<f64> = (0..ROUNDS).map(seconds).collect();
            let mean = all.iter().sum::<f64>() / f64::from(ROUNDS);
            let variance = all.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / f64::from(ROUNDS);
            let error = (variance / f64::from(ROUNDS)).sqrt();
            let expected = order_statistic(1.0, k, asked);
            assert!((mean - expected).abs() < 5.0 * error, "{schedule}: {mean}, {expected}");
        }
    }
}
