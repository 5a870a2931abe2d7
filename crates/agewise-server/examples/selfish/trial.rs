//! A run over loopback in which three of ten clients may be selfish. The example and the test share it.
//!
//! Keys, the run's id and the seeds' secret are fixed, so with the check a run has the same draws, and the same cohorts, every time.

mod client;

use agewise_server::client::{Client, ClientParams, Event, OwnTask};
use agewise_server::coordinator::{self, Coordinator};
use agewise_server::crypto::Identity;
use agewise_server::test_support::Numbers;
use agewise_server::{AccessParams, CoordinatorParams, DeployedModelParams, RoundParams};
use client::Selfish;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Whatever ends a run too early.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Numbers of the model, which clients send back as they are: who takes part is all that matters here.
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
    /// Whether the coordinator checks ages and draws.
    pub(crate) has_check: bool,
}

/// Which clients are the selfish ones, if there are any: 3 of 10, spread evenly, as those who enrolled first hear of a round first.
pub(crate) fn may_be_selfish(client: u32) -> bool {
    client * 3 % 10 < 3
}

impl Trial {
    /// Plays the run to its end. The ledger is in the folder then.
    pub(crate) async fn play(self, state: &Path) -> Result<(), Failure> {
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
                // The figures are compared with the law of n/m.
                calibrate: Some(false),
                ..RoundParams::default()
            },
            model: DeployedModelParams { eval_every: 0, ..DeployedModelParams::default() },
            ..CoordinatorParams::default()
        };
        let coordinator =
            Coordinator::new(params.check()?, Arc::new(Numbers::new(PARAMETERS))).with_run([7; 16]);
        let coordinator =
            if self.has_check { coordinator } else { coordinator.skip_verification() };
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
    async fn clients(self, url: &str) -> Result<(), Failure> {
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let name = format!("client-{number:03}");
            let identity = Identity::from_secret(Sha256::digest(&name).into());
            if self.has_selfish && may_be_selfish(number) {
                clients.spawn(Selfish::enrol(url, &name, identity).await?.play());
                continue;
            }
            let params = ClientParams {
                name: Some(name),
                identity: Some(identity),
                ..ClientParams::new(url)
            };
            let (events, mut heard) = mpsc::unbounded_channel();
            let client =
                Client::new(params, Box::new(OwnTask(Arc::new(Numbers::new(PARAMETERS)))))?
                    .with_events(events);
            clients
                .spawn(async { client.run(std::future::pending()).await.map_err(Failure::from) });
            while !matches!(heard.recv().await, None | Some(Event::Enrolled { .. })) {}
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok(())
    }
}
