//! A coordinator and its clients over loopback, inside the test.
#![allow(dead_code, reason = "not every test needs everything")]

pub(crate) mod raw_client;
pub(crate) mod site;
pub(crate) mod verified;

use agewise_core::Seed;
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::client::{Event, TaskProvider};
use agewise_server::coordinator::{self as server, Coordinator, CoordinatorError};
use agewise_server::native::{ImageClient, SharedImages, coordinator_task};
use agewise_server::{
    AccessParams, CoordinatorConfig, CoordinatorParams, DeployedModelParams, DrawSource, MaxNorm,
    ReportDeadline, RoundParams, UpdateParams,
};
use agewise_train::Threads;
use agewise_train::aggregation::AggregationParams;
use agewise_train::data::{self, Dataset, Partition, PartitionParams};
use agewise_train::local::{LocalTrainingParams, LocalWork};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// An empty folder of a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&path).unwrap();
    path
}

pub(crate) fn digits() -> Dataset {
    data::load("digits", &[]).unwrap()
}

/// The settings of the small runs: 2nn on digits, 5 steps of 20. Aggregation is the paper's, as in the simulator; what a deployment does
/// beyond it by default has tests of its own.
pub(crate) fn params(state: &Path, policy: &str, clients: u64, cohort: u64) -> CoordinatorParams {
    CoordinatorParams {
        state: state.to_path_buf(),
        access: AccessParams { tokens: false },
        round: RoundParams {
            policy: policy.to_string(),
            clients,
            cohort,
            rounds: 5,
            // Both end before, when all have come.
            join_seconds: 200.0,
            report_seconds: 400.0,
            // What follows from durations would differ on a busy machine; it has tests of its own.
            report_deadline: ReportDeadline::Fixed,
            // The simulator's draws, so that both can be compared; tests of verification have their own.
            draws: DrawSource::Seeded,
            // As in a calm simulation; what calibrates has tests of its own.
            calibrate: Some(false),
            min_reports: 1,
            ..RoundParams::default()
        },
        model: DeployedModelParams::default(),
        updates: UpdateParams { max_norm: MaxNorm::OFF, ..UpdateParams::default() },
        aggregation: AggregationParams::default(),
        training: LocalTrainingParams {
            work: LocalWork::Steps(5),
            batch: 20,
            ..LocalTrainingParams::default()
        },
        ..CoordinatorParams::default()
    }
}

pub(crate) fn partition(dataset: &Dataset, clients: u64, seed: u64) -> Partition {
    let params = PartitionParams {
        distribution: "dirichlet:0.3".parse().unwrap(),
        sizes: "equal".parse().unwrap(),
        clients,
        least: 1,
        seed: Seed(seed),
    };
    params.check(&dataset.train).unwrap().split()
}

/// A coordinator that runs in the background.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: JoinHandle<Result<(), CoordinatorError>>,
}

impl Running {
    pub(crate) async fn start(params: CoordinatorParams, resume: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(listener, params, resume)
    }

    pub(crate) fn start_on(listener: TcpListener, params: CoordinatorParams, resume: bool) -> Self {
        let coordinator = coordinator(params.check().unwrap());
        Self::serve(listener, if resume { coordinator.resuming() } else { coordinator })
    }

    pub(crate) fn serve(listener: TcpListener, coordinator: Coordinator) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let ended = tokio::spawn(server::run(listener, coordinator, shutdown));
        Self { url, stop: Some(stop), ended }
    }

    pub(crate) async fn until_the_end(self) {
        let Self { ended, stop, .. } = self;
        ended.await.unwrap().unwrap();
        drop(stop);
    }
}

/// A coordinator over the digits.
pub(crate) fn coordinator(config: CoordinatorConfig) -> Coordinator {
    let task = coordinator_task(&config.params.model, config.training, digits()).unwrap();
    Coordinator::new(config, Arc::new(task)).with_threads(Threads::ONE)
}

/// The tasks of clients over the digits.
pub(crate) fn tasks(clients: u64, seed: u64) -> Vec<Box<dyn TaskProvider>> {
    let dataset = digits();
    let partition = partition(&dataset, clients, seed);
    ImageClient::all(&SharedImages::new(dataset, 2).unwrap(), &partition)
}

pub(crate) type Heard = mpsc::UnboundedReceiver<(usize, Event)>;

/// A swarm that runs in the background.
pub(crate) fn start_swarm(url: &str, tasks: Vec<Box<dyn TaskProvider>>) -> (JoinHandle<()>, Heard) {
    let mut params = SwarmParams::new(url);
    params.longest_pause = Duration::from_millis(500);
    let (events, heard) = mpsc::unbounded_channel();
    let running = async move {
        swarm::run(params, tasks, Some(events), std::future::pending()).await.unwrap();
    };
    (tokio::spawn(running), heard)
}

/// The ledger of a run, as other programs see it.
pub(crate) fn ledger(state: &Path) -> Connection {
    Connection::open(state.join(server::LEDGER)).unwrap()
}

/// The cohort of every round: those whose reports were accepted.
pub(crate) fn cohorts(ledger: &Connection) -> Vec<Vec<u32>> {
    let rounds: u32 =
        ledger.query_row("SELECT COUNT(*) FROM rounds", [], |row| row.get(0)).unwrap();
    let mut query = ledger
        .prepare(
            "SELECT client FROM joins WHERE round = ?1 AND outcome = 'reported' ORDER BY client",
        )
        .unwrap();
    let mut all = Vec::new();
    for round in 0..rounds {
        let clients = query.query_map([round], |row| row.get(0)).unwrap();
        all.push(clients.collect::<Result<Vec<u32>, _>>().unwrap());
    }
    all
}
