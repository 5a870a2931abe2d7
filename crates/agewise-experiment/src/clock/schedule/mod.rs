//! When a round ends, and whose updates count.

mod buffered;
mod deadline;
mod fed_async;
mod over_select;
mod sync;

pub use buffered::Buffered;
pub use deadline::Deadline;
pub use fed_async::FedAsync;

use super::client_times::ClientTimes;
use agewise_core::{Error, Result};
use agewise_train::StaleRule;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

const EXPECTED: &str = "sync, deadline:SECONDSs (such as deadline:30s), deadline:QUANTILE of all clients above 0 and at \
                        most 1 (such as deadline:0.8), over-select:FACTOR above 1 and at most 10 (such as \
                        over-select:1.3), buffered:K (such as buffered:5 or buffered:5(exponent=1)), or async (such as \
                        async(mixing=0.6, exponent=0.5))";

/// When a round ends, and whose updates count.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Schedule {
    /// A round waits for everyone who was asked.
    #[default]
    Sync,
    /// A round ends after so long, and updates that come later are lost.
    Deadline(Deadline),
    /// This many times the cohort are asked, and the round ends when a cohort has reported.
    OverSelect(f64),
    /// There are no rounds: a cohort of clients works at any moment, and the server makes a step with so many updates.
    Buffered(Buffered),
    /// The same with a step for each update.
    Async(FedAsync),
}

/// A client that was asked in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Member {
    pub(crate) client: u32,
    /// When it is done, or drops out: seconds from the announcement of the round.
    pub(crate) end: f64,
    /// Whether it delivers then.
    pub(crate) delivers: bool,
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    /// Seconds from the announcement.
    pub(crate) seconds: f64,
    /// Clients that would have delivered, and whose updates came too late to count, in increasing order.
    pub(crate) late: Vec<u32>,
}

/// A schedule for the clients of a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SeedSchedule {
    Sync,
    Deadline(f64),
    /// So many updates are waited for.
    OverSelect(u32),
}

impl Schedule {
    /// How many clients are to be asked so that a cohort reports.
    pub fn asked(self, cohort: u64) -> u64 {
        match self {
            Self::OverSelect(factor) => over_select::asked(factor, cohort),
            Self::Sync | Self::Deadline(_) => cohort,
            // One place after the other becomes free.
            Self::Buffered(_) | Self::Async(_) => 1,
        }
    }

    /// Whether the updates of clients that deliver may be lost.
    pub fn loses_updates(self) -> bool {
        matches!(self, Self::Deadline(_) | Self::OverSelect(_))
    }

    /// The updates of a step of the server, where there are no rounds.
    pub fn updates_per_step(self) -> Option<u32> {
        match self {
            Self::Buffered(buffered) => Some(buffered.updates),
            Self::Async(_) => Some(1),
            Self::Sync | Self::Deadline(_) | Self::OverSelect(_) => None,
        }
    }

    /// How an update counts that is so many steps old.
    pub(crate) fn stale_rule(self, staleness: u64) -> StaleRule {
        match self {
            Self::Buffered(buffered) => buffered.rule(staleness),
            Self::Async(mixing) => mixing.rule(staleness),
            Self::Sync | Self::Deadline(_) | Self::OverSelect(_) => StaleRule::Step(1.0),
        }
    }

    /// Whether a client that is late has failed: its update is one less than the target, so that laws have to learn of it.
    /// Otherwise it was surplus, as more were asked than were needed.
    pub(crate) fn late_have_failed(self) -> bool {
        matches!(self, Self::Deadline(_))
    }

    /// Whether it can be kept under one seed and not under another.
    pub(crate) fn depends_on_seed(self) -> bool {
        matches!(self, Self::Deadline(Deadline::Seconds(_)))
    }

    /// Checks it for a population and a cohort.
    pub(crate) fn check(self, clients: u64, cohort: u64) -> Result<()> {
        if let Some(updates) = self.updates_per_step() {
            if cohort + u64::from(updates) <= clients {
                return Ok(());
            }
            let expected = format!(
                "a buffer of at most {} updates: {cohort} of the {clients} clients are at work, and those in the buffer wait",
                clients.saturating_sub(cohort)
            );
            return Err(Error::new("schedule", self, expected));
        }
        let asked = self.asked(cohort);
        if asked <= clients {
            return Ok(());
        }
        let expected =
            format!("a factor with which {cohort} clients per round become at most {clients}");
        Err(Error::new("schedule", self, expected))
    }

    /// The same for the clients of a seed, of whom so many are there at first.
    pub(crate) fn for_seed(
        self,
        times: &ClientTimes,
        clients: u32,
        cohort: u32,
    ) -> Result<SeedSchedule> {
        Ok(match self {
            Self::Sync | Self::Buffered(_) | Self::Async(_) => SeedSchedule::Sync,
            Self::Deadline(deadline) => SeedSchedule::Deadline(deadline.seconds(times, clients)?),
            Self::OverSelect(_) => SeedSchedule::OverSelect(cohort),
        })
    }
}

impl SeedSchedule {
    /// How a round ends in which these clients were asked.
    pub(crate) fn end(self, members: &[Member]) -> Ended {
        match self {
            Self::Sync => sync::end(members),
            Self::Deadline(seconds) => deadline::end(seconds, members),
            Self::OverSelect(cohort) => over_select::end(cohort, members),
        }
    }
}

/// The text before brackets, and the values of the options in them, with the usual ones where none are said.
fn options<'a, const N: usize>(
    text: &'a str,
    known: &[(&str, f64, RangeInclusive<f64>); N],
) -> Option<(&'a str, [f64; N])> {
    let mut values = known.each_ref().map(|&(_, usual, _)| usual);
    let Some((before, inner)) = text.split_once('(') else {
        return Some((text, values));
    };
    for option in inner.strip_suffix(')')?.split(',') {
        let (name, value) = option.split_once('=')?;
        let place = known.iter().position(|(known, ..)| *known == name.trim())?;
        let value = value.trim().parse().ok()?;
        values[place] = Some(value).filter(|value| known[place].2.contains(value))?;
    }
    Some((before, values))
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) =
            text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let found = match (name, rest) {
            ("buffered", Some(rest)) => Buffered::parse(rest).map(Self::Buffered),
            _ if text.starts_with("async") => FedAsync::parse(&text[5..]).map(Self::Async),
            ("sync", None) => Some(Self::Sync),
            ("deadline", Some(rest)) => Deadline::parse(rest).map(Self::Deadline),
            ("over-select", Some(rest)) => over_select::parse(rest).map(Self::OverSelect),
            _ => None,
        };
        found.ok_or_else(|| Error::new("schedule", text, EXPECTED))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.write_str("sync"),
            Self::Deadline(deadline) => write!(f, "deadline:{deadline}"),
            Self::OverSelect(factor) => write!(f, "over-select:{factor}"),
            Self::Buffered(buffered) => buffered.fmt(f),
            Self::Async(mixing) => mixing.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_parse_and_print_the_same_text() {
        let rounds = ["sync", "deadline:30s", "deadline:0.5s", "deadline:0.8", "over-select:1.3"];
        let steps = ["buffered:5", "buffered:5(exponent=1)", "async", "async(mixing=1)"];
        for text in rounds.into_iter().chain(steps).chain(["async(mixing=0.9, exponent=0)"]) {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        assert_eq!("async(mixing=0.6)".parse::<Schedule>().unwrap().to_string(), "async");
        let wrong = ["", "sync:1", "deadline", "deadline:0", "deadline:1.1", "deadline:0s"];
        let more = ["deadline:-1s", "over-select:1", "over-select:11", "buffered", "buffered:0"];
        let last = ["async:1", "async(mixing=0)", "async(mix=1)", "buffered:2(exponent=11"];
        for text in wrong.into_iter().chain(more).chain(last) {
            let error = text.parse::<Schedule>().unwrap_err();
            assert_eq!((error.field(), error.value()), ("schedule", text));
        }
    }

    fn members(ends: &[(f64, bool)]) -> Vec<Member> {
        let member = |(client, &(end, delivers)): (u32, _)| Member { client, end, delivers };
        (0..).zip(ends).map(member).collect()
    }

    #[test]
    fn each_schedule_ends_when_it_should() {
        let asked = members(&[(5.0, true), (2.0, true), (9.0, false), (7.0, true), (2.0, true)]);
        let end = |schedule: SeedSchedule| {
            let Ended { seconds, late } = schedule.end(&asked);
            (seconds, late)
        };
        // A client that drops out is missed when it does.
        assert_eq!(end(SeedSchedule::Sync), (9.0, vec![]));
        assert_eq!(end(SeedSchedule::Deadline(6.0)), (6.0, vec![3]));
        assert_eq!(end(SeedSchedule::Deadline(5.0)), (5.0, vec![3]));
        assert_eq!(end(SeedSchedule::Deadline(20.0)), (9.0, vec![]));
        // Of those that are done at once, the lower number counts.
        assert_eq!(end(SeedSchedule::OverSelect(1)), (2.0, vec![0, 3, 4]));
        assert_eq!(end(SeedSchedule::OverSelect(3)), (5.0, vec![3]));
        assert_eq!(end(SeedSchedule::OverSelect(5)), (9.0, vec![]));
        assert_eq!(SeedSchedule::Sync.end(&[]).seconds, 0.0);
        assert_eq!(Schedule::OverSelect(1.3).asked(10), 13);
        assert_eq!(Schedule::OverSelect(1.05).asked(10), 11);
    }
}
