//! How long members have taken from joining to their report, and from that how long a round waits for those that are left.
//!
//! Durations are the coordinator's own measurements, by a clock that does not jump; what a client says of its training decides nothing.
//! A report that came late tells how long its client needs as well as one that was accepted, so that the durations are not only those of
//! clients that were fast enough. Nothing of this is in the ledger: after a start the coordinator waits for `round.report_seconds` until
//! it has seen enough again.

use crate::config::ReportDeadline;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How many of the last durations count.
const WINDOW: usize = 200;
/// From so many durations on, half of a round's members are enough to stop waiting for the others.
const WARM_UP: usize = 20;
/// The fewest durations from which anything follows.
const FEWEST: usize = 2;
/// The adaptive deadline is a multiple of this quantile of the durations, so that fewer than one in ten cannot stretch it.
const USUAL: f64 = 0.9;
/// How many times that, or its own last duration, a member may take. In a fleet whose logarithms of speeds have a standard deviation of
/// 1.4, as phones have, one in a hundred is slower than four times the 0.9 quantile; it comes late once, and is known from then on.
const MULTIPLE: f64 = 4.0;
/// A member has at least this long, so that a pause of a network or of a machine is no failure where training takes no time.
const LEAST: Duration = Duration::from_secs(5);

/// Where a round stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Members that have joined.
    pub(super) joined: usize,
    /// Those whose reports were accepted.
    pub(super) reported: usize,
    /// Those whose reports may still come.
    pub(super) awaited: usize,
    /// The fewest reports from which a model is made.
    pub(super) needed: usize,
}

/// What the coordinator has seen of its clients' durations since it was started.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Oldest first, in seconds.
    recent: VecDeque<f64>,
    /// The last duration of each client, unless it has missed a round since.
    own: BTreeMap<u32, f64>,
    /// The last round that each client has missed, and when it had joined.
    missed: BTreeMap<u32, (u64, Instant)>,
}

impl Pace {
    /// A report of a member that joined at this instant is there.
    pub(super) fn observe(&mut self, client: u32, joined: Instant, now: Instant) {
        let seconds = now.saturating_duration_since(joined).as_secs_f64();
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(seconds);
        self.own.insert(client, seconds);
        self.missed.remove(&client);
    }

    /// A round has ended without the report of a member: it does not have longer than others until one is there.
    pub(super) fn miss(&mut self, client: u32, round: u64, joined: Option<Instant>) {
        self.own.remove(&client);
        self.missed.remove(&client);
        self.missed.extend(joined.map(|joined| (client, (round, joined))));
    }

    /// The report of a round that a client has missed is there after all.
    pub(super) fn observe_late(&mut self, client: u32, round: u64, now: Instant) {
        if let Some(&(missed, joined)) = self.missed.get(&client)
            && missed == round
        {
            self.observe(client, joined, now);
        }
    }

    /// How long each member of a round has to report, from when it joined; nothing if too little is known.
    pub(super) fn allowed(
        &self,
        deadline: ReportDeadline,
        progress: Progress,
    ) -> Option<impl Fn(u32) -> Duration> {
        let is_adaptive = deadline == ReportDeadline::Adaptive;
        let (share, multiple, least) = match deadline {
            ReportDeadline::Adaptive if self.may_stop(progress) => (USUAL, MULTIPLE, LEAST),
            // Before there are enough reports for a model, stopping would only lose those that are there.
            ReportDeadline::Quantile(share)
                if self.recent.len() >= WARM_UP && progress.reported >= progress.needed =>
            {
                (share, 1.0, Duration::ZERO)
            }
            _ => return None,
        };
        let usual = self.quantile(share)?;
        Some(move |client| {
            let own = self.own.get(&client).filter(|_| is_adaptive);
            let seconds = multiple * own.map_or(usual, |own| usual.max(*own));
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).max(least)
        })
    }

    /// Whether enough of a round is there to stop waiting. When little is known, nearly all of it; later also where a single member is
    /// left, whatever the others did.
    fn may_stop(&self, Progress { joined, reported, awaited, needed }: Progress) -> bool {
        if self.recent.len() < WARM_UP {
            let is_nearly_all = awaited <= (joined / 10).max(1) && reported >= needed;
            return is_nearly_all && self.recent.len() >= FEWEST;
        }
        awaited <= 1 || (reported >= needed && reported >= awaited)
    }

    /// The smallest duration that this share of them does not exceed.
    fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.recent.iter().copied().collect();
        let last = sorted.len().checked_sub(1)?;
        // A share of a few hundred is exact enough in floats.
        let place = ((share * sorted.len() as f64).ceil() as usize).clamp(1, last + 1) - 1;
        let (_, &mut seconds, _) = sorted.select_nth_unstable_by(place, f64::total_cmp);
        Some(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEARLY_ALL: Progress = Progress { joined: 5, reported: 4, awaited: 1, needed: 2 };

    /// Clients 0, 1, ... with these durations.
    fn seen(seconds: impl IntoIterator<Item = u64>) -> (Pace, Instant) {
        let mut pace = Pace::default();
        let joined = Instant::now();
        for (client, seconds) in (0..).zip(seconds) {
            pace.observe(client, joined, joined + Duration::from_secs(seconds));
        }
        (pace, joined)
    }

    fn adaptive(pace: &Pace, client: u32, progress: Progress) -> Option<u64> {
        let allowed = pace.allowed(ReportDeadline::Adaptive, progress);
        allowed.map(|allowed| allowed(client).as_secs())
    }

    #[test]
    fn nothing_follows_from_nothing() {
        for deadline in
            [ReportDeadline::Adaptive, ReportDeadline::Fixed, ReportDeadline::Quantile(0.5)]
        {
            assert!(Pace::default().allowed(deadline, NEARLY_ALL).is_none());
            let (one, _) = seen([3]);
            assert!(one.allowed(deadline, NEARLY_ALL).is_none());
        }
    }

    #[test]
    fn it_is_a_multiple_of_the_quantile_with_a_floor() {
        let (pace, _) = seen(1..=10);
        assert_eq!(adaptive(&pace, 99, NEARLY_ALL), Some(4 * 9));
        let (pace, _) = seen([0; 10]);
        assert_eq!(adaptive(&pace, 99, NEARLY_ALL), Some(5), "training took no time");
        let (pace, _) = seen((0..1000).map(|_| 100).chain(vec![7; WINDOW]));
        assert_eq!(adaptive(&pace, 9999, NEARLY_ALL), Some(28), "what is older is forgotten");
        assert!(pace.allowed(ReportDeadline::Fixed, NEARLY_ALL).is_none());
    }

    #[test]
    fn at_first_nearly_all_have_to_be_there_and_later_half_of_them() {
        let half = Progress { joined: 6, reported: 3, awaited: 3, needed: 2 };
        let few = Progress { joined: 6, reported: 2, awaited: 4, needed: 2 };
        let alone = Progress { joined: 1, reported: 0, awaited: 1, needed: 2 };
        let (first, _) = seen(vec![2; WARM_UP - 1]);
        let (later, _) = seen(vec![2; WARM_UP]);
        for (progress, at_first, in_time) in [
            (NEARLY_ALL, Some(8), Some(8)),
            (half, None, Some(8)),
            (few, None, None),
            (alone, None, Some(8)),
            // A tenth of a larger cohort.
            (Progress { joined: 40, reported: 36, awaited: 4, needed: 2 }, Some(8), Some(8)),
            (Progress { joined: 40, reported: 35, awaited: 5, needed: 2 }, None, Some(8)),
            // Not enough for a model.
            (Progress { joined: 6, reported: 3, awaited: 3, needed: 4 }, None, None),
        ] {
            assert_eq!(adaptive(&first, 99, progress), at_first, "{progress:?}");
            assert_eq!(adaptive(&later, 99, progress), in_time, "{progress:?}");
        }
    }

    /// A slow client is late once; from then on it has the time that it needs. One that brings nothing has not.
    #[test]
    fn a_slow_client_is_known_by_its_late_report_and_a_silent_one_is_not() {
        let (mut pace, joined) = seen(vec![2; 100]);
        for client in [100, 101] {
            assert_eq!(adaptive(&pace, client, NEARLY_ALL), Some(8));
            pace.miss(client, 7, Some(joined));
        }
        pace.observe_late(100, 7, joined + Duration::from_secs(30));
        assert_eq!(adaptive(&pace, 100, NEARLY_ALL), Some(120));
        assert_eq!(adaptive(&pace, 101, NEARLY_ALL), Some(8));
        // One slow report buys one long wait.
        pace.miss(100, 8, Some(joined));
        assert_eq!(adaptive(&pace, 100, NEARLY_ALL), Some(8));
        // What it brings for another round, or for the same one again, is no duration.
        pace.observe_late(100, 7, joined + Duration::from_secs(30));
        assert_eq!(adaptive(&pace, 100, NEARLY_ALL), Some(8));
        pace.observe_late(100, 8, joined + Duration::from_secs(20));
        pace.observe_late(100, 8, joined + Duration::from_secs(90));
        assert_eq!(adaptive(&pace, 100, NEARLY_ALL), Some(80));
    }

    /// Late reports count with what they took, so a deadline by quantile does not fall from round to round.
    #[test]
    fn a_deadline_by_quantile_is_that_of_all_clients() {
        let (mut pace, joined) = seen(1..=20);
        let quantile = |pace: &Pace, share| {
            let allowed = pace.allowed(ReportDeadline::Quantile(share), NEARLY_ALL);
            allowed.map(|allowed| allowed(0).as_secs())
        };
        assert_eq!(quantile(&pace, 0.8), Some(16));
        assert_eq!(quantile(&pace, 1.0), Some(20));
        assert_eq!(quantile(&pace, 0.001), Some(1));
        for round in 0..50 {
            let until = quantile(&pace, 0.8).unwrap();
            for client in 0..20 {
                let needs = u64::from(client) + 1;
                let now = joined + Duration::from_secs(needs);
                if needs <= until {
                    pace.observe(client, joined, now);
                } else {
                    pace.miss(client, round, Some(joined));
                    pace.observe_late(client, round, now);
                }
            }
            assert_eq!(quantile(&pace, 0.8), Some(16), "round {round}");
        }
        let too_few = Progress { joined: 5, reported: 1, awaited: 4, needed: 2 };
        assert!(pace.allowed(ReportDeadline::Quantile(0.8), too_few).is_none());
    }
}
