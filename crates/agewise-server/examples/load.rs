//! Ten thousand clients in one process, with no data and next to no training: the load of `bench/load/run`.
//!
//! `cargo run --release -p agewise-server --example load -- COORDINATOR CA TOKENS [SWARMS]` starts one client for each line of the file TOKENS, in
//! so many swarms side by side (clients of one swarm enrol one after the other), and prints what they saw as `name value` lines.

use agewise_core::{Error, Result};
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::client::{Event, TaskProvider};
use agewise_server::crypto::token::Token;
use agewise_server::protocol::TaskSpec;
use agewise_server::test_support::Numbers;
use agewise_server::tls::Trust;
use agewise_train::Task;
use std::collections::BTreeMap;
use std::error::Error as AnyError;
use std::fs;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

/// Swarms side by side, if it is not said how many.
const SWARMS: usize = 16;
const SAMPLES: u64 = 100;

/// A client that changes every parameter a little, each by another amount, so that no two updates are the same.
struct Trivial;

impl TaskProvider for Trivial {
    fn samples(&self) -> Result<u64> {
        Ok(SAMPLES)
    }

    fn prepare(&self, spec: &TaskSpec) -> Result<Arc<dyn Task>> {
        let task = Numbers::new(spec.parameters as usize).with_report(SAMPLES, 1.0);
        Ok(Arc::new(task.with_training(|job, parameters| {
            let step = 1e-6 * ((job.client % 1_000) as f32 + 1.0);
            for value in parameters {
                *value += step;
            }
            Ok(())
        })))
    }
}

/// What all clients saw together.
struct EventCounts {
    begun: Instant,
    enrolled: u64,
    all_enrolled: f64,
    /// When clients came into a cohort, by round: Unix milliseconds of the last.
    last_join: BTreeMap<u64, u128>,
    joined: u64,
    accepted: u64,
    /// Not joined, not accepted.
    turned_away: u64,
    /// Disconnected, if only for a moment, or gave up.
    lost: u64,
    /// When the end of the run was heard, in seconds since the start.
    finished: Vec<f64>,
}

impl EventCounts {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            enrolled: 0,
            all_enrolled: 0.0,
            last_join: BTreeMap::new(),
            joined: 0,
            accepted: 0,
            turned_away: 0,
            lost: 0,
            finished: Vec::new(),
        }
    }

    fn note(&mut self, event: Event) {
        let seconds = self.begun.elapsed().as_secs_f64();
        match event {
            Event::Enrolled { .. } => {
                self.enrolled += 1;
                self.all_enrolled = seconds;
            }
            Event::Joined { round, .. } => {
                self.joined += 1;
                self.last_join.insert(round, unix_millis());
            }
            Event::Accepted { .. } => self.accepted += 1,
            Event::NotJoined { round, why } | Event::NotAccepted { round, why } => {
                self.turned_away += 1;
                eprintln!("round {round}: {why}");
            }
            Event::Disconnected { why }
            | Event::StateNotWritten { why }
            | Event::Failed { why } => {
                self.lost += 1;
                eprintln!("lost: {why}");
            }
            Event::Finished => self.finished.push(seconds),
        }
    }

    /// Collects events until all clients have ended.
    async fn all(mut events: UnboundedReceiver<(usize, Event)>) -> Self {
        let mut seen = Self::new();
        while let Some((_, event)) = events.recv().await {
            seen.note(event);
        }
        seen
    }

    fn print(&mut self) {
        self.finished.sort_by(f64::total_cmp);
        println!("enrolments {}", self.enrolled);
        println!("enrolment_seconds {:.2}", self.all_enrolled);
        println!("joined {}", self.joined);
        println!("accepted {}", self.accepted);
        println!("turned_away {}", self.turned_away);
        println!("lost {}", self.lost);
        println!("heard_the_end {}", self.finished.len());
        if let (Some(first), Some(last)) = (self.finished.first(), self.finished.last()) {
            println!("end_spread_seconds {:.3}", last - first);
        }
        for (round, millis) in &self.last_join {
            println!("last_join {round} {millis}");
        }
    }
}

fn unix_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis())
}

/// Runs all clients until the run is over.
async fn run(
    coordinator: String,
    authority: Vec<u8>,
    tokens: Vec<Token>,
    swarms: usize,
) -> std::result::Result<EventCounts, Box<dyn AnyError>> {
    let clients = tokens.len();
    let (sender, events) = unbounded_channel();
    let seen = tokio::spawn(EventCounts::all(events));
    let mut running = JoinSet::new();
    for (number, tokens) in tokens.chunks(clients.div_ceil(swarms)).enumerate() {
        let params = SwarmParams {
            prefix: format!("load-{number:02}"),
            trust: Trust::Authority(authority.clone()),
            tokens: tokens.to_vec(),
            ..SwarmParams::new(coordinator.clone())
        };
        let tasks = tokens.iter().map(|_| Box::new(Trivial) as Box<dyn TaskProvider>).collect();
        running.spawn(swarm::run(params, tasks, Some(sender.clone()), std::future::pending()));
    }
    drop(sender);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(seen.await?)
}

fn main() -> std::result::Result<(), Box<dyn AnyError>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (coordinator, authority, tokens, swarms) = match &arguments[..] {
        [coordinator, authority, tokens] => (coordinator, authority, tokens, SWARMS),
        [coordinator, authority, tokens, swarms] => {
            let wrong = |_| Error::new("SWARMS", swarms, "a whole number from 1 on");
            (coordinator, authority, tokens, swarms.parse().map_err(wrong)?)
        }
        _ => return Err("usage: load COORDINATOR CA TOKENS [SWARMS]".into()),
    };
    let authority = fs::read(authority)?;
    let tokens: Vec<Token> =
        fs::read_to_string(tokens)?.lines().map(str::parse).collect::<Result<_>>()?;
    if tokens.is_empty() || swarms == 0 {
        return Err(Error::new("TOKENS, SWARMS", 0, "at least 1 of each").into());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let mut seen = runtime.block_on(run(coordinator.clone(), authority, tokens, swarms))?;
    seen.print();
    Ok(())
}
