//! A round ends after so long; updates that would come later are lost, and their clients count as failed.

use super::sync::last;
use super::{Ended, Member};
use crate::clock::client_times::ClientTimes;
use agewise_core::{Error, Result};
use std::fmt;

/// When a round is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Deadline {
    /// After so many seconds.
    Seconds(f64),
    /// When this share of all clients would be done.
    Quantile(f64),
}

impl Deadline {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(seconds) = text.strip_suffix('s') {
            let seconds: f64 = seconds.parse().ok()?;
            return (seconds > 0.0 && seconds <= 1e12).then_some(Self::Seconds(seconds));
        }
        let share: f64 = text.parse().ok()?;
        (share > 0.0 && share <= 1.0).then_some(Self::Quantile(share))
    }

    /// Its seconds for the first so many clients of a seed; a deadline that none of them can meet is refused.
    pub(super) fn seconds(self, times: &ClientTimes, clients: u32) -> Result<f64> {
        match self {
            Self::Quantile(share) => Ok(times.quantile(clients, share)),
            Self::Seconds(seconds) => {
                let fastest = times.fastest(clients);
                if seconds >= fastest {
                    return Ok(seconds);
                }
                let rounded = (fastest * 1e3).ceil() / 1e3;
                let expected = format!(
                    "at least {rounded} s: the fastest of the {clients} clients needs that for download, training and \
                     upload"
                );
                Err(Error::new("schedule", format!("deadline:{self}"), expected))
            }
        }
    }
}

pub(super) fn end(deadline: f64, members: &[Member]) -> Ended {
    let is_late = |member: &&Member| member.delivers && member.end > deadline;
    Ended {
        seconds: last(members).min(deadline),
        late: members.iter().filter(is_late).map(|member| member.client).collect(),
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => write!(f, "{seconds}s"),
            Self::Quantile(share) => write!(f, "{share}"),
        }
    }
}
