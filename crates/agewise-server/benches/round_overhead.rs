//! What a round costs beyond training: a cohort of 10 and the `cnn` model over loopback, with clients that do not train.
//!
//! `cargo bench -p agewise-server --bench round_overhead [-- ROUNDS]`; `bench/deployment/run` runs it beside Flower.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up ends")]

use agewise_core::{Error, Result};
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::client::{OwnTask, TaskProvider};
use agewise_server::coordinator::{self, Coordinator, LEDGER};
use agewise_server::test_support::Numbers;
use agewise_server::tls::{ServerIdentity, TrialCertificates, Trust};
use agewise_server::{AccessParams, CoordinatorParams, DeployedModelParams, RoundParams};
use agewise_train::data::ImageShape;
use agewise_train::model::{Model, ModelSpec};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

const COHORT: u64 = 10;
/// Rounds that are not counted: connections and files are new.
const WARM_UP: u64 = 2;

/// The `cnn` of MNIST as nothing but numbers: a client changes every one of them a little, and nothing is evaluated.
fn cnn() -> Result<Arc<Numbers>> {
    let model = Model::new(ModelSpec::named("cnn", ImageShape::new(1, 28, 28), 10)?)?;
    let task = Numbers::new(model.parameters()).with_report(600, 1.0);
    Ok(Arc::new(task.with_training(|job, parameters| {
        for value in parameters {
            *value += 1e-6 * (job.client as f32 + 1.0);
        }
        Ok(())
    })))
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
        model: DeployedModelParams {
            name: "cnn".to_string(),
            eval_every: 0,
            ..DeployedModelParams::default()
        },
        ..CoordinatorParams::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = cnn().unwrap();
    let mut coordinator = Coordinator::new(params.check().unwrap(), task.clone());
    let mut clients = SwarmParams::new(format!("http://127.0.0.1:{port}"));
    if with_tls {
        let made = TrialCertificates::new(&["localhost".to_string()]).unwrap();
        let identity = ServerIdentity::from_pem(made.certificate.as_bytes(), made.key.as_bytes());
        coordinator = coordinator.with_identity(identity);
        clients.coordinator = format!("https://localhost:{port}");
        clients.trust = Trust::Authority(made.authority.into_bytes());
    }
    let serving = tokio::spawn(coordinator::run(listener, coordinator, std::future::pending()));
    let client = || Box::new(OwnTask(task.clone())) as Box<dyn TaskProvider>;
    let tasks = (0..COHORT).map(|_| client()).collect();
    swarm::run(clients, tasks, None, std::future::pending()).await.unwrap();
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
