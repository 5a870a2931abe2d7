//! What a round costs the coordinator's driver when many clients have enrolled and few of them are connected.
//!
//! `cargo bench -p agewise-server --bench driver_rounds [-- CLIENTS...]` plays rounds of 10 clients with a model of 1,000 parameters over
//! loopback, for a policy that the coordinator decides and for one that the clients decide, and prints the processor time of the driver's
//! thread and the time from one round to the next. The ledger is filled beforehand, so that 100,000 clients do not have to enrol.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up ends")]

use agewise_core::MaxAge;
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::client::{Event, OwnTask, TaskProvider};
use agewise_server::coordinator::{self, Admin, Coordinator, LEDGER};
use agewise_server::crypto::Identity;
use agewise_server::test_support::Numbers;
use agewise_server::{AccessParams, CoordinatorParams, DeployedModelParams, RoundParams};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

const COHORT: u64 = 10;
const ROUNDS: u64 = 24;
/// Rounds that are not counted: connections and files are new.
const WARM_UP: u64 = 3;
/// Clients that are connected: ten for each round, and each of them is due in one.
const CONNECTED: u64 = COHORT * ROUNDS;
const PARAMETERS: usize = 1_000;
const SAMPLES: u64 = 600;

/// A client that changes every parameter a little, and nothing else.
fn idle() -> Box<dyn TaskProvider> {
    let task = Numbers::new(PARAMETERS).with_report(SAMPLES, 1.0);
    Box::new(OwnTask(Arc::new(task.with_training(|job, parameters| {
        for value in parameters {
            *value += 1e-6 * (job.client as f32 + 1.0);
        }
        Ok(())
    }))))
}

fn identity(client: u64) -> Identity {
    let mut secret = [7; 32];
    secret[..8].copy_from_slice(&client.to_le_bytes());
    Identity::from_secret(secret)
}

/// A ledger in which so many clients have enrolled. Those that connect are due one after the other, ten in a round.
fn fill(state: &Path, clients: u64) {
    std::fs::remove_dir_all(state).ok();
    drop(Admin::open(state).unwrap());
    let mut ledger = Connection::open(state.join(LEDGER)).unwrap();
    let filling = ledger.transaction().unwrap();
    let interval = (clients / COHORT) as i64;
    let away = identity(u64::MAX).public().to_bytes();
    for client in 0..clients {
        let is_connected = client < CONNECTED;
        let key = if is_connected { identity(client).public().to_bytes() } else { away };
        let samples = if is_connected { SAMPLES } else { 100 + client % 977 };
        let due = if is_connected {
            (client / COHORT) as i64
        } else {
            ROUNDS as i64 + (client as i64 * 7_919) % (interval - ROUNDS as i64)
        };
        let waiting = due - (interval - 1);
        let name =
            if is_connected { format!("swarm-{client:05}") } else { format!("away-{client}") };
        filling
            .prepare_cached("INSERT INTO clients (client, name, key, samples, enrolled, settings, first_waiting, waiting_since) VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?5)")
            .unwrap()
            .execute(params![client as i64, name, key, samples as i64, waiting])
            .unwrap();
        filling
            .prepare_cached("INSERT INTO keys VALUES (?1, 0, ?2)")
            .unwrap()
            .execute(params![client as i64, key])
            .unwrap();
        filling
            .prepare_cached("INSERT INTO samples VALUES (?1, 0, ?2)")
            .unwrap()
            .execute(params![client as i64, samples as i64])
            .unwrap();
    }
    filling.commit().unwrap();
}

/// Nanoseconds that the driver's thread has been on a processor.
fn driver_nanos() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let driver = tasks.map(|task| task.path()).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "agewise-driver")
    });
    let text = std::fs::read_to_string(driver.unwrap().join("schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Milliseconds per round: on the driver's thread, and in all.
async fn run(policy: &str, clients: u64) -> (f64, f64) {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver-rounds");
    fill(&state, clients);
    let params = CoordinatorParams {
        state: state.clone(),
        access: AccessParams { tokens: false },
        round: RoundParams {
            policy: policy.to_string(),
            clients: CONNECTED,
            cohort: COHORT,
            max_cohort: COHORT,
            calibrate: Some(false),
            max_age: MaxAge::Fixed(20_000),
            rounds: ROUNDS,
            join_seconds: 60.0,
            report_seconds: 600.0,
            ..RoundParams::default()
        },
        model: DeployedModelParams { eval_every: 0, ..DeployedModelParams::default() },
        ..CoordinatorParams::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut swarm = SwarmParams::new(format!("http://{}", listener.local_addr().unwrap()));
    swarm.identities = (0..CONNECTED).map(identity).collect();
    let coordinator = Coordinator::new(params.check().unwrap(), Arc::new(Numbers::new(PARAMETERS)));
    let serving = tokio::spawn(coordinator::run(listener, coordinator, std::future::pending()));
    let tasks = (0..CONNECTED).map(|_| idle()).collect();
    let (events, mut heard) = unbounded_channel();
    let swarm = tokio::spawn(swarm::run(swarm, tasks, Some(events), std::future::pending()));
    // From the first report of one round to the first report of another.
    let (mut begin, mut end) = (None, None);
    while let Some((_, event)) = heard.recv().await {
        if let Event::Accepted { round } = event {
            let place = match round {
                WARM_UP => &mut begin,
                _ if round == ROUNDS - 1 => &mut end,
                _ => continue,
            };
            place.get_or_insert_with(|| (driver_nanos(), std::time::Instant::now()));
        }
    }
    swarm.await.unwrap().unwrap();
    serving.await.unwrap().unwrap();
    let ledger = Connection::open(state.join(LEDGER)).unwrap();
    let whole = "SELECT COUNT(*) FROM rounds WHERE reported = ?1 AND NOT forced AND clients = ?2";
    let whole: i64 =
        ledger.query_row(whole, params![COHORT as i64, clients as i64], |row| row.get(0)).unwrap();
    assert_eq!(whole as u64, ROUNDS, "every round has a whole cohort");
    std::fs::remove_dir_all(&state).ok();
    let ((busy, began), (busy_then, ended)) = (begin.unwrap(), end.unwrap());
    let rounds = (ROUNDS - 1 - WARM_UP) as f64;
    let all = ended.duration_since(began).as_secs_f64() * 1e3;
    ((busy_then - busy) as f64 / 1e6 / rounds, all / rounds)
}

fn main() {
    // `cargo bench` adds a flag of its own.
    let clients = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let mut clients: Vec<u64> = clients.collect();
    if clients.is_empty() {
        clients = vec![1_000, 10_000, 100_000];
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!(
        "milliseconds of a round of {COHORT} clients, mean of {} rounds:",
        ROUNDS - 1 - WARM_UP
    );
    println!("{:<16} {:>9} {:>12} {:>12}", "policy", "clients", "driver", "all");
    for policy in ["oldest-first", "random", "round-robin", "markov-optimal"] {
        for &clients in &clients {
            let (driver, all) = runtime.block_on(run(policy, clients));
            println!("{policy:<16} {clients:>9} {driver:>12.3} {all:>12.3}");
        }
    }
}
