//! What a round costs.

use super::client_times::ClientTimes;
use serde::{Deserialize, Serialize};

/// What a client draws, in watts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// While it computes.
    pub computing: f64,
    /// While it sends or receives.
    pub link: f64,
}

/// What a round costs, or several.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RoundCosts {
    /// Simulated seconds from its beginning to its end.
    pub seconds: f64,
    /// Seconds that clients downloaded, computed and uploaded, until they were done or were told to stop.
    pub client_seconds: f64,
    /// Those of them that came to nothing: the client dropped out, or its update did not count.
    pub wasted_seconds: f64,
    /// Bytes from the server to clients.
    pub bytes_down: u64,
    /// Bytes from clients to the server.
    pub bytes_up: u64,
    /// What clients spent, where their power is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
}

/// What a training run writes down about the time of a round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockLog {
    /// What the round cost.
    pub costs: RoundCosts,
    /// The seconds that each of the clients worked that were asked, in increasing order of client; probes not counted.
    pub worked: Vec<f32>,
}

impl RoundCosts {
    /// Adds those of a further round.
    pub fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.client_seconds += other.client_seconds;
        self.wasted_seconds += other.wasted_seconds;
        self.bytes_down += other.bytes_down;
        self.bytes_up += other.bytes_up;
        self.joules = match (self.joules, other.joules) {
            (Some(mine), Some(theirs)) => Some(mine + theirs),
            (mine, theirs) => mine.or(theirs),
        };
    }

    /// The costs of several rounds.
    pub fn sum<'a>(rounds: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        rounds.into_iter().for_each(|round| sum.add(round));
        sum
    }

    /// Adds the work of a client that stops so many seconds after it was asked; `has_model` says that it need not download
    /// the model, and `counts` that its update counts.
    pub(crate) fn add_work(
        &mut self,
        times: &ClientTimes,
        power: Option<Power>,
        client: u32,
        work: Work,
    ) {
        let download = if work.has_model { 0.0 } else { times.download(client) };
        let (training, upload) = (times.training(client), times.upload(client));
        let bytes = times.model_bytes();
        // The part of a transfer that takes so long and has gone on for so long.
        let part = |gone: f64, whole: f64| {
            if gone >= whole { bytes } else { (bytes as f64 * (gone / whole).max(0.0)) as u64 }
        };
        self.client_seconds += work.seconds;
        if !work.counts {
            self.wasted_seconds += work.seconds;
        }
        if !work.has_model {
            self.bytes_down += part(work.seconds, download);
        }
        let sending = work.seconds - download - training;
        if work.counts || sending > 0.0 {
            self.bytes_up += if work.counts { bytes } else { part(sending, upload) };
        }
        if let Some(power) = power {
            let computing = (work.seconds - download).clamp(0.0, training);
            let moving = work.seconds - computing;
            *self.joules.get_or_insert(0.0) += power.computing * computing + power.link * moving;
        }
    }
}

/// The work of a client in a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// How long it lasts.
    pub(crate) seconds: f64,
    pub(crate) has_model: bool,
    pub(crate) counts: bool,
}
