//! What a round costs beyond training: a cohort of 10 and the `cnn` model over loopback, with clients that do not train.
//!
//! `cargo bench -p agewise-net --bench round_overhead [-- ROUNDS]`; `bench/deployment/run` runs it beside Flower.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up ends")]

use agewise_core::{Error, Result, Seed};
use agewise_learn::Evaluation;
use agewise_learn::data::ImageShape;
use agewise_learn::model::{Model, ModelSpec};
use agewise_net::coordinator::{self, Coordinator, LEDGER};
use agewise_net::participant::{LocalLearner, RoundTask, Trained};
use agewise_net::proto::Task;
use agewise_net::swarm::{self, SwarmParams};
use agewise_net::tls::{ServerIdentity, TrialCertificates, Trust};
use agewise_net::{AccessParams, CoordinatorParams, GlobalModel, ModelParams, RoundParams};
use rusqlite::Connection;
use std::path::Path;
use tokio::net::TcpListener;

const COHORT: u64 = 10;
/// Rounds that are not counted: connections and files are new.
const WARM_UP: u64 = 2;

/// The `cnn` of MNIST, which nobody evaluates.
struct Cnn(Model);

impl Cnn {
    fn new() -> Result<Self> {
        Ok(Self(Model::new(ModelSpec::named("cnn", ImageShape::new(1, 28, 28), 10)?)?))
    }
}

impl GlobalModel for Cnn {
    fn parameters(&self) -> usize {
        self.0.parameters()
    }
    fn initial(&self, seed: Seed) -> Vec<f32> {
        self.0.initial(seed)
    }
    fn encode(&self, parameters: &[f32]) -> Result<Vec<u8>> {
        self.0.to_safetensors(parameters)
    }
    fn decode(&self, file: &[u8]) -> Result<Vec<f32>> {
        self.0.from_safetensors(file)
    }
    fn evaluate(&mut self, _: &[f32]) -> Result<Option<Evaluation>> {
        Ok(None)
    }
    fn describe(&self, task: &mut Task) {
        task.model = "cnn".to_string();
    }
}

/// A client that changes every parameter a little, and nothing else.
struct Idle;

impl LocalLearner for Idle {
    fn samples(&self) -> u64 {
        600
    }
    fn prepare(&mut self, _: &Task) -> Result<()> {
        Ok(())
    }
    fn train(&mut self, round: &RoundTask, parameters: &mut [f32]) -> Result<Trained> {
        for value in parameters {
            *value += 1e-6 * (round.client as f32 + 1.0);
        }
        Ok(Trained { samples: 600, loss: 1.0 })
    }
}

async fn run(policy: &str, rounds: u64, with_tls: bool) -> Vec<f64> {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("round-overhead");
    std::fs::remove_dir_all(&state).ok();
    let params = CoordinatorParams {
        state: state.clone(),
        access: AccessParams { tokens: false },
        round: RoundParams {
            policy: policy.to_string(),
            clients: COHORT,
            cohort: COHORT,
            rounds: rounds + WARM_UP,
            join_seconds: 60.0,
            report_seconds: 600.0,
            ..RoundParams::default()
        },
        model: ModelParams { name: "cnn".to_string(), eval_every: 0, ..ModelParams::default() },
        ..CoordinatorParams::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let model = Cnn::new().unwrap();
    let mut coordinator = Coordinator::new(params.check().unwrap(), Box::new(model));
    let mut clients = SwarmParams::new(format!("http://127.0.0.1:{port}"));
    if with_tls {
        let made = TrialCertificates::new(&["localhost".to_string()]).unwrap();
        let identity = ServerIdentity::from_pem(made.certificate.as_bytes(), made.key.as_bytes());
        coordinator = coordinator.with_identity(identity);
        clients.coordinator = format!("https://localhost:{port}");
        clients.trust = Trust::Authority(made.authority.into_bytes());
    }
    let serving = tokio::spawn(coordinator::run(listener, coordinator, std::future::pending()));
    let learners = (0..COHORT).map(|_| Box::new(Idle) as Box<dyn LocalLearner>).collect();
    swarm::run(clients, learners, None, std::future::pending()).await.unwrap();
    serving.await.unwrap().unwrap();
    let ledger = Connection::open(state.join(LEDGER)).unwrap();
    let mut query = ledger
        .prepare("SELECT seconds FROM rounds WHERE round >= ?1 AND reported = ?2 ORDER BY round")
        .unwrap();
    let seconds = query.query_map([WARM_UP as i64, COHORT as i64], |row| row.get(0)).unwrap();
    let seconds: Vec<f64> = seconds.map(std::result::Result::unwrap).collect();
    assert_eq!(seconds.len() as u64, rounds, "every round has a whole cohort");
    std::fs::remove_dir_all(&state).ok();
    seconds
}

fn main() -> Result<()> {
    // `cargo bench` adds a flag of its own.
    let rounds = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let rounds: u64 = match rounds {
        None => 20,
        Some(text) => text.parse().map_err(|_| Error::new("rounds", &text, "a whole number"))?,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, with_tls) in [("without TLS", false), ("with TLS", true)] {
        let mut seconds = runtime.block_on(run("oldest-first", rounds, with_tls));
        seconds.sort_by(f64::total_cmp);
        let (least, most) = (seconds[0], seconds[seconds.len() - 1]);
        let median = f64::midpoint(seconds[(seconds.len() - 1) / 2], seconds[seconds.len() / 2]);
        // Flower is measured without TLS, so this is the line that is compared.
        let line = if with_tls { "agewise with TLS" } else { "agewise" };
        println!(
            "{line} seconds per round: median {median:.3} of {rounds} ({least:.3} to {most:.3}), {name}"
        );
    }
    Ok(())
}
