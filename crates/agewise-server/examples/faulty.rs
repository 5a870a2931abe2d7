//! Ten clients with the digits, of which one misbehaves: what `bench/deployment/faults` measures.
//!
//! `cargo run --release -p agewise-server --example faulty -- COORDINATOR FAULT` connects them to a coordinator on loopback without tokens
//! until the run is over. FAULT is `none`, `silent` (joins, stays connected and never reports), `refused` (every update has an infinity in
//! it) or `poison` (3.4e38 in every parameter).

use agewise_core::{Result, Seed};
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::client::{Event, TaskProvider};
use agewise_server::native::{ImageClient, SharedImages};
use agewise_server::protocol::TaskSpec;
use agewise_train::data::{self, PartitionParams};
use agewise_train::local::LocalReport;
use agewise_train::task::{PartitionKey, TrainJob};
use agewise_train::{Evaluation, Task};
use std::error::Error as AnyError;
use std::str::FromStr;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;

const CLIENTS: u64 = 10;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Silent,
    Refused,
    Poison,
}

impl FromStr for Fault {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "silent" => Ok(Self::Silent),
            "refused" => Ok(Self::Refused),
            "poison" => Ok(Self::Poison),
            _ => Err("FAULT: expected none, silent, refused or poison"),
        }
    }
}

/// A client that trains like the others, and then does what is wrong.
struct Faulty<T> {
    inner: T,
    fault: Fault,
}

impl TaskProvider for Faulty<Box<dyn TaskProvider>> {
    fn samples(&self) -> Result<u64> {
        self.inner.samples()
    }

    fn prepare(&self, spec: &TaskSpec) -> Result<Arc<dyn Task>> {
        Ok(Arc::new(Faulty { inner: self.inner.prepare(spec)?, fault: self.fault }))
    }
}

impl Task for Faulty<Arc<dyn Task>> {
    fn parameters(&self) -> usize {
        self.inner.parameters()
    }

    fn initial(&self, seed: Seed) -> Result<Vec<f32>> {
        self.inner.initial(seed)
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        self.inner.sizes(key)
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        let report = self.inner.train(job, parameters)?;
        match self.fault {
            Fault::None => {}
            Fault::Silent => loop {
                std::thread::park();
            },
            Fault::Refused => parameters[0] = f32::INFINITY,
            Fault::Poison => parameters.fill(3.4e38),
        }
        Ok(report)
    }

    fn evaluate(&self, parameters: &[f32], piece: usize) -> Result<Evaluation> {
        self.inner.evaluate(parameters, piece)
    }
}

/// Plays until all but the faulty client have heard that the run is over.
async fn play(coordinator: &str, fault: Fault) -> std::result::Result<(), Box<dyn AnyError>> {
    let dataset = data::load("digits", &[])?;
    let partition = PartitionParams {
        distribution: "dirichlet:0.3".parse()?,
        sizes: "equal".parse()?,
        clients: CLIENTS,
        least: 1,
        seed: Seed(0),
    };
    let partition = partition.check(&dataset.train)?.split();
    let mut tasks = ImageClient::all(&SharedImages::new(dataset, 2)?, &partition);
    if let Some(last) = tasks.pop() {
        tasks.push(Box::new(Faulty { inner: last, fault }));
    }
    let (sender, mut events) = unbounded_channel();
    let params = SwarmParams::new(coordinator);
    let running = tokio::spawn(swarm::run(params, tasks, Some(sender), std::future::pending()));
    let mut finished = 0;
    while let Some((_, event)) = events.recv().await {
        finished += u64::from(matches!(event, Event::Finished));
        if finished == CLIENTS - 1 {
            break;
        }
    }
    running.abort();
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn AnyError>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [coordinator, fault] = &arguments[..] else {
        return Err("usage: faulty COORDINATOR FAULT".into());
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let played = runtime.block_on(play(coordinator, fault.parse()?));
    // The silent client never comes back from its training.
    runtime.shutdown_background();
    played
}
