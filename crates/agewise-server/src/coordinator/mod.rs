//! The coordinator: [`run`] serves a run on a listener until it is over or told to stop.
//!
//! ```text
//! service (tonic, many tasks) ──commands──► driver (one thread) ──► storage: ledger (SQLite), updates, models
//!          ▲                                   │
//!          └────── answers, announcements ◄────┘        http (axum) ──reads──► shared, ledger
//! ```
//!
//! - `connections`: how many connections, for how long without authentication, and how much memory each of them can take.
//! - `auth`: sessions, signatures, tokens and rates, checked before anything else is done for a call.
//! - `service`: streams, chunks and deadlines of the gRPC calls.
//! - `state_machine`: the driver. One thread decides, and what it has in memory is a cache of the ledger.
//! - `uploads`: updates on their way to disk.
//! - `storage`: the ledger, the models, and sketches of updates.
//! - [`audit`]: the ledger of a run, replayed and verified.
//! - `admin`: tokens and revocation, for operators, who may write to the state folder.
//! - `health`: what is wrong at this moment.
//! - `http`: the live page, JSON, metrics and health.

mod admin;
pub mod audit;
mod auth;
mod command;
mod connections;
mod error;
mod health;
pub(crate) mod http;
mod metrics;
mod refusal;
mod selection;
mod service;
mod shared;
mod startup;
mod state_machine;
mod storage;
mod uploads;

pub use admin::{Admin, ClientInfo, RollbackOutcome, TokenInfo};
pub use error::CoordinatorError;

use crate::client::with_causes;
use crate::config::CoordinatorConfig;
use crate::protocol::coordinator_server::CoordinatorServer;
use crate::tls::ServerIdentity;
use agewise_train::{Task, Threads};
use command::Command;
use connections::{CallDeadlines, Incoming, Limits, bounded};
use http::Access;
use service::{LARGEST_MESSAGE, Service};
use shared::Shared;
use startup::{StartOptions, prepare};
use state_machine::{EndJoining, WallClock};
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;

/// The file of the ledger inside the state folder.
pub const LEDGER: &str = "ledger.sqlite";

/// How long calls may take to end when the coordinator stops.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// A coordinator that is ready to be run.
pub struct Coordinator {
    config: CoordinatorConfig,
    task: Arc<dyn Task>,
    threads: Threads,
    resume: bool,
    identity: Option<ServerIdentity>,
    web: Option<TcpListener>,
    run: Option<[u8; 16]>,
    skips_verification: bool,
    end_joining: Option<EndJoining>,
    wall_clock: WallClock,
}

impl Coordinator {
    /// A coordinator for a new run, in which this task is trained. It needs the task for the first model and for evaluation; clients have the
    /// data to train on.
    pub fn new(config: CoordinatorConfig, task: Arc<dyn Task>) -> Self {
        let wall_clock: WallClock = Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_millis() as i64)
        });
        Self {
            config,
            task,
            threads: Threads::default(),
            resume: false,
            identity: None,
            web: None,
            run: None,
            skips_verification: false,
            end_joining: None,
            wall_clock,
        }
    }

    /// Goes on with the run in the state folder, or begins one if there is none.
    #[must_use]
    pub fn resuming(self) -> Self {
        Self { resume: true, ..self }
    }

    /// Evaluates models with so many threads, instead of one for each core.
    #[must_use]
    pub fn with_threads(self, threads: Threads) -> Self {
        Self { threads, ..self }
    }

    /// With TLS.
    #[must_use]
    pub fn with_identity(self, identity: ServerIdentity) -> Self {
        Self { identity: Some(identity), ..self }
    }

    /// With the live page, metrics and health on this listener.
    #[must_use]
    pub fn with_web(self, listener: TcpListener) -> Self {
        Self { web: Some(listener), ..self }
    }

    /// With this as the id of a new run, instead of a random one: with the same keys and seeds, draws are the same again.
    #[must_use]
    pub fn with_run(self, run: [u8; 16]) -> Self {
        Self { run: Some(run), ..self }
    }

    /// Accepts every client that asks to join, whatever its age and its proof: a demonstration of what selfish clients do then. Only tests and
    /// demonstrations can be built with it.
    #[cfg(feature = "test-support")]
    #[must_use]
    pub fn skip_verification(self) -> Self {
        Self { skips_verification: true, ..self }
    }

    /// Ends joining in a round, given by its number, also when `is_over` says so, which is asked again and again: a test in which
    /// clients decide can wait for those that it expects, however long they take. Only tests and demonstrations can be built with it.
    #[cfg(feature = "test-support")]
    #[must_use]
    pub fn end_joining_when(self, is_over: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self { end_joining: Some(Arc::new(is_over)), ..self }
    }

    /// With another time of day (Unix milliseconds): it is written down for people, and decides nothing.
    #[must_use]
    pub fn with_wall_clock(self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { wall_clock: Arc::new(clock), ..self }
    }
}

/// Runs a coordinator on a listener, until all rounds are over or `shutdown` is ready. Then the round is finished or handed back.
pub async fn run(
    listener: TcpListener,
    coordinator: Coordinator,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), CoordinatorError> {
    let Coordinator {
        config,
        task,
        threads,
        resume,
        identity,
        web,
        run,
        skips_verification,
        end_joining,
        wall_clock,
    } = coordinator;
    let address = listener.local_addr().map_err(|error| CoordinatorError::Network(error.into()))?;
    check_address(address, identity.is_some(), config.params.access.tokens)?;
    let limits = &config.params.limits;
    let deadlines = CallDeadlines {
        short: Duration::from_secs_f64(limits.call_seconds),
        report: config.report_window(),
    };
    let mut server = bounded(Server::builder().layer(deadlines));
    if let Some(identity) = identity {
        server = server.tls_config(identity.config()).map_err(|error| wrong_identity(&error))?;
    }
    let report_window = config.report_window();
    let calls = limits.calls as usize;
    let connections = within_files(limits.connections as usize, config.max_cohort)?;
    let unauthenticated = (limits.unauthenticated as usize).min(connections / 2).max(1);
    let limits = Limits {
        connections,
        unauthenticated,
        per_address: ((unauthenticated as f64 * limits.address_share) as usize).max(1),
        handshake_timeout: Duration::from_secs_f64(limits.handshake_seconds),
    };
    let state = config.params.state.clone();
    let names = config.params.http_names.clone();
    let shared = Arc::new(Shared::new(state.join(LEDGER)));
    let prepare = {
        let shared = shared.clone();
        let options = StartOptions { threads, resume, run, skips_verification };
        move || prepare(config, task, options, shared, wall_clock)
    };
    let prepared = tokio::task::spawn_blocking(prepare).await;
    let (mut driver, lock) = prepared.map_err(|_| CoordinatorError::Panicked("the start"))??;

    driver.end_joining_when(end_joining);
    let auth = driver.auth();
    let (commands, questions) = mpsc::channel();
    let (ended, mut has_ended) = watch::channel(());
    let seen = shared.clone();
    let thread = std::thread::Builder::new().name("agewise-driver".to_string());
    let thread = thread.spawn(move || {
        driver.run(&questions);
        seen.close();
        drop(ended);
    });
    let thread = thread.map_err(CoordinatorError::Thread)?;

    let (stop, stopped) = watch::channel(false);
    let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
        // An error means that the sender is gone: stop as well.
        stopped.wait_for(|stop| *stop).await.ok();
    };
    let web = web.map(|listener| {
        // Requests from this machine need no token, but the page has to be meant; others need the token of an observer.
        let is_here = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let access = if is_here { Access::Named(names) } else { Access::Observers(auth.clone()) };
        tokio::spawn(http::serve(listener, shared.clone(), access, until_stopped(stopped.clone())))
    });
    let incoming = Incoming::new(listener, limits, shared.connections.clone());
    let service = Service::new(commands.clone(), auth, shared, calls, report_window);
    let service = CoordinatorServer::new(service)
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
    let serving = server.add_service(service);
    let serving = serving.serve_with_incoming_shutdown(incoming, until_stopped(stopped));
    let mut serving = tokio::spawn(serving);

    // Nothing is ever sent: an error says that the driver's end is gone.
    let mut served = None;
    tokio::select! {
        _ = has_ended.changed() => {}
        result = &mut serving => served = Some(result),
        () = shutdown => {}
    }
    // If the driver is still there it finishes the round or hands it back.
    commands.send(Command::Drain).ok();
    has_ended.changed().await.ok();
    stop.send(true).ok();
    if served.is_none() && tokio::time::timeout(LAST_CALLS, &mut serving).await.is_err() {
        serving.abort();
    }
    if let Some(web) = web
        && tokio::time::timeout(LAST_CALLS, web).await.is_err()
    {
        tracing::debug!("the page was still being read");
    }
    let panicked = tokio::task::spawn_blocking(move || thread.join().is_err()).await;
    drop(lock);
    if panicked.unwrap_or(true) {
        return Err(CoordinatorError::Panicked("the driver"));
    }
    match served {
        Some(Ok(Err(error))) => Err(CoordinatorError::Network(error.into())),
        _ => Ok(()),
    }
}

/// As many connections as leave enough files for everything else: the ledger, the page, and an update of each client of a round.
fn within_files(connections: usize, max_cohort: usize) -> Result<usize, CoordinatorError> {
    let Some(files) = open_files() else {
        return Ok(connections);
    };
    let others = 64 + http::MOST_CONNECTIONS + max_cohort.min(files / 4);
    let most = files.saturating_sub(others);
    if most < 16 {
        let expected = format!("a limit of open files above {}: see ulimit -n", others + 16);
        return Err(agewise_core::Error::new("open files", files, expected).into());
    }
    if most < connections {
        tracing::warn!(
            files,
            connections = most,
            "the limit of open files (ulimit -n) is low: accepting fewer connections"
        );
    }
    Ok(most.min(connections))
}

/// How many files this process may have open, where the system says so.
fn open_files() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

fn wrong_identity(error: &tonic::transport::Error) -> agewise_core::Error {
    let why = with_causes(error);
    let expected = format!("a certificate and the key that belongs to it, as PEM ({why})");
    agewise_core::Error::new("tls.certificate, tls.key", "these files", expected)
}

/// Without TLS everyone on the way can read and change everything, so only loopback addresses may do without.
fn check_address(
    address: SocketAddr,
    is_encrypted: bool,
    needs_tokens: bool,
) -> Result<(), CoordinatorError> {
    if address.ip().is_loopback() || (is_encrypted && needs_tokens) {
        return Ok(());
    }
    if is_encrypted {
        let expected = format!("true, as {address} can be reached from other machines");
        return Err(agewise_core::Error::new("access.tokens", false, expected).into());
    }
    let expected = "a loopback address, or tls.certificate and tls.key";
    Err(agewise_core::Error::new("listen", address, expected).into())
}
