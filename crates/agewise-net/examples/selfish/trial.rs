//! A run over loopback in which three of ten clients may be selfish. The example and the test share it.
//!
//! Keys, the run's id and the seeds' secret are fixed, so with the check a run has the same lots, and the same cohorts, every time.

mod client;

use agewise_core::{Error, Result, Seed};
use agewise_learn::Evaluation;
use agewise_net::coordinator::{self, Coordinator};
use agewise_net::honesty::Identity;
use agewise_net::participant::{
    Event, LocalLearner, Participant, ParticipantParams, RoundTask, Trained,
};
use agewise_net::proto::Task;
use agewise_net::{AccessParams, CoordinatorParams, GlobalModel, ModelParams, RoundParams};
use client::Selfish;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Whatever ends a run too early.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Numbers of the model, which nobody trains.
const PARAMETERS: usize = 4;

/// One run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    /// n.
    pub(crate) clients: u32,
    /// m.
    pub(crate) cohort: u32,
    pub(crate) rounds: u32,
    pub(crate) join_seconds: f64,
    /// Whether three of ten clients are selfish.
    pub(crate) has_selfish: bool,
    /// Whether the coordinator checks ages and lots.
    pub(crate) has_check: bool,
}

/// Which clients are the selfish ones, if there are any: 3 of 10, spread evenly, as those who enrolled first hear of a round first.
pub(crate) fn may_be_selfish(client: u32) -> bool {
    client * 3 % 10 < 3
}

impl Trial {
    /// Plays the run to its end. The ledger is in the folder then.
    pub(crate) async fn play(self, state: &Path) -> std::result::Result<(), Failure> {
        fs::create_dir_all(state)?;
        // Seeds that are the same every time: only a demonstration may do that.
        fs::write(state.join("seeds.key"), "5e".repeat(32))?;
        let params = CoordinatorParams {
            state: state.to_path_buf(),
            access: AccessParams { tokens: false },
            round: RoundParams {
                policy: "markov-optimal".to_string(),
                clients: u64::from(self.clients),
                cohort: u64::from(self.cohort),
                rounds: u64::from(self.rounds),
                join_seconds: self.join_seconds,
                ..RoundParams::default()
            },
            model: ModelParams { eval_every: 0, ..ModelParams::default() },
            ..CoordinatorParams::default()
        };
        let coordinator = Coordinator::new(params.check()?, Box::new(Numbers)).with_run([7; 16]);
        let coordinator = if self.has_check { coordinator } else { coordinator.gullible() };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let serving = async {
            coordinator::run(listener, coordinator, std::future::pending())
                .await
                .map_err(Failure::from)
        };
        tokio::try_join!(serving, self.clients(&url))?;
        Ok(())
    }

    /// All clients, who enrol one after the other, until the run is over.
    async fn clients(self, url: &str) -> std::result::Result<(), Failure> {
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let name = format!("client-{number:03}");
            let identity = Identity::from_secret(Sha256::digest(&name).into());
            if self.has_selfish && may_be_selfish(number) {
                clients.spawn(Selfish::enrol(url, &name, identity).await?.play());
                continue;
            }
            let params = ParticipantParams {
                name: Some(name),
                identity: Some(identity),
                ..ParticipantParams::new(url)
            };
            let (events, mut heard) = mpsc::unbounded_channel();
            let participant = Participant::new(params, Box::new(Idle))?.with_events(events);
            clients.spawn(async {
                participant.run(std::future::pending()).await.map_err(Failure::from)
            });
            while !matches!(heard.recv().await, None | Some(Event::Enrolled { .. })) {}
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// A model that is only numbers.
struct Numbers;

impl GlobalModel for Numbers {
    fn parameters(&self) -> usize {
        PARAMETERS
    }

    fn initial(&self, _: Seed) -> Vec<f32> {
        vec![0.0; PARAMETERS]
    }

    fn encode(&self, parameters: &[f32]) -> Result<Vec<u8>> {
        Ok(parameters.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn decode(&self, file: &[u8]) -> Result<Vec<f32>> {
        let (words, rest) = file.as_chunks::<4>();
        if words.len() != PARAMETERS || !rest.is_empty() {
            return Err(Error::new("file", file.len(), format!("{} bytes", 4 * PARAMETERS)));
        }
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }

    fn evaluate(&mut self, _: &[f32]) -> Result<Option<Evaluation>> {
        Ok(None)
    }

    fn describe(&self, task: &mut Task) {
        task.model = "numbers".to_string();
    }
}

/// A client that sends back what it got: who takes part is all that matters here.
struct Idle;

impl LocalLearner for Idle {
    fn samples(&self) -> u64 {
        1
    }

    fn prepare(&mut self, _: &Task) -> Result<()> {
        Ok(())
    }

    fn train(&mut self, _: &RoundTask, _: &mut [f32]) -> Result<Trained> {
        Ok(Trained { samples: 1, loss: 1.0 })
    }
}
