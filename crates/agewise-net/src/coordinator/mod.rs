//! The coordinator: [`run`] serves a run on a listener until it is over or told to stop.
//!
//! ```text
//! service (tonic, many tasks) ──commands──► driver (one thread) ──► ledger (SQLite), updates, models
//!          ▲                                   │
//!          └────────── answers, news ◄─────────┘        web (axum) ──reads──► shared, ledger
//! ```

mod command;
mod driver;
mod intake;
mod ledger;
mod metrics;
mod models;
mod population;
mod refusal;
mod round;
mod service;
mod shared;
mod trouble;
mod web;

pub use trouble::Trouble;

use crate::config::CoordinatorConfig;
use crate::model::GlobalModel;
use crate::participant::with_causes;
use crate::proto::coordinator_server::CoordinatorServer;
use crate::tls::ServerIdentity;
use command::Command;
use driver::{Driver, Parts, WallClock};
use intake::Spool;
use ledger::Ledger;
use models::ModelStore;
use service::{LARGEST_MESSAGE, Service};
use shared::Shared;
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

/// The file of the ledger inside the state folder.
pub const LEDGER: &str = "ledger.sqlite";

/// A dead connection is noticed after this time and the next together.
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most calls at a time on one connection.
const MOST_STREAMS: u32 = 64;
/// Bytes on their way to us, per call and per connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// How long calls may take to end when the coordinator stops.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// A coordinator that is ready to be run.
pub struct Coordinator {
    config: CoordinatorConfig,
    model: Box<dyn GlobalModel>,
    resume: bool,
    identity: Option<ServerIdentity>,
    web: Option<TcpListener>,
    wall_clock: WallClock,
}

impl Coordinator {
    /// A coordinator for a new run.
    pub fn new(config: CoordinatorConfig, model: Box<dyn GlobalModel>) -> Self {
        let wall_clock: WallClock = Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_millis() as i64)
        });
        Self { config, model, resume: false, identity: None, web: None, wall_clock }
    }

    /// Goes on with the run in the state folder, or begins one if there is none.
    #[must_use]
    pub fn resuming(self) -> Self {
        Self { resume: true, ..self }
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
) -> Result<(), Trouble> {
    let Coordinator { config, model, resume, identity, web, wall_clock } = coordinator;
    let address = listener.local_addr().map_err(|error| Trouble::Network(error.to_string()))?;
    check_address(address, identity.is_some())?;
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true);
    if let Some(identity) = identity {
        server = server.tls_config(identity.config()).map_err(|error| {
            let why = with_causes(&error);
            let expected = format!("a certificate and the key that belongs to it, as PEM ({why})");
            agewise_core::Error::new("tls.certificate, tls.key", "these files", expected)
        })?;
    }
    let report_window = config.report_window();
    let state = config.params.state.clone();
    let shared = Arc::new(Shared::new(state.join(LEDGER)));
    let prepare = {
        let shared = shared.clone();
        move || prepare(config, model, resume, shared, wall_clock)
    };
    let prepared = tokio::task::spawn_blocking(prepare).await;
    let (driver, lock) =
        prepared.map_err(|error| Trouble::Network(format!("the start failed: {error}")))??;

    let (commands, questions) = mpsc::channel();
    let (ended, mut has_ended) = watch::channel(());
    let seen = shared.clone();
    let thread = std::thread::Builder::new().name("agewise-driver".to_string());
    let thread = thread.spawn(move || {
        driver.run(&questions);
        seen.close();
        drop(ended);
    });
    let thread = thread.map_err(|error| Trouble::Network(error.to_string()))?;

    let (stop, stopped) = watch::channel(false);
    let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
        // An error means that the sender is gone: stop as well.
        stopped.wait_for(|stop| *stop).await.ok();
    };
    let web = web.map(|listener| {
        tokio::spawn(web::serve(listener, shared.clone(), until_stopped(stopped.clone())))
    });
    let service = Service::new(commands.clone(), shared, report_window);
    let service = CoordinatorServer::new(service)
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
    let incoming = TcpListenerStream::new(listener);
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
        tracing::debug!("somebody was still looking at the page");
    }
    let panicked = tokio::task::spawn_blocking(move || thread.join().is_err()).await;
    drop(lock);
    if panicked.unwrap_or(true) {
        return Err(Trouble::Network("the driver ended with a panic".to_string()));
    }
    match served {
        Some(Ok(Err(error))) => Err(network(error)),
        _ => Ok(()),
    }
}

fn network(error: impl std::fmt::Display) -> Trouble {
    Trouble::Network(format!("network: {error}"))
}

/// Without TLS everyone on the way can read and change everything, so nobody may be on the way.
fn check_address(address: SocketAddr, is_encrypted: bool) -> Result<(), Trouble> {
    if is_encrypted || address.ip().is_loopback() {
        return Ok(());
    }
    let expected = "a loopback address, or tls.certificate and tls.key";
    Err(agewise_core::Error::new("listen", address, expected).into())
}

/// Opens the state folder, and reads where the run stands.
fn prepare(
    config: CoordinatorConfig,
    model: Box<dyn GlobalModel>,
    resume: bool,
    shared: Arc<Shared>,
    wall_clock: WallClock,
) -> Result<(Driver, fs::File), Trouble> {
    let state = config.params.state.clone();
    let path = state.join(LEDGER);
    if path.exists() && !resume {
        let expected = "a folder without a run (--resume continues the one that is there)";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    }
    let has_models =
        fs::read_dir(state.join("models")).is_ok_and(|mut files| files.next().is_some());
    if !path.exists() && has_models {
        let expected = "a folder with the ledger of its models, or without both";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    }
    fs::create_dir_all(&state).map_err(Trouble::file(&state))?;
    let lock = lock(&state)?;
    let mut ledger = Ledger::open(&path)?;
    if !ledger.has_known_schema()? {
        let shown = path.display();
        return Err(Trouble::Broken(format!("{shown}: expected a ledger of this version")));
    }
    let run = check_facts(&mut ledger, &config, model.parameters())?;
    let keep = config.params.model.keep as usize;
    let models = ModelStore::open(state.join("models"), keep)?;
    let spool = Spool::new(state.join("updates"));
    let parts = Parts { config, model, ledger, models, spool, run, shared, wall_clock };
    Ok((Driver::new(parts)?, lock))
}

/// Keeps a second coordinator away from the folder, as long as the result lives; a process that is killed lets go.
fn lock(state: &Path) -> Result<fs::File, Trouble> {
    let path = state.join("lock");
    let file = fs::File::create(&path).map_err(Trouble::file(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let expected = "a folder in which no other coordinator is working";
            Err(agewise_core::Error::new("state", state.display(), expected).into())
        }
        Err(fs::TryLockError::Error(error)) => Err(Trouble::file(&path)(error)),
    }
}

/// What a run is, which cannot change on the way; gives the run's id.
fn check_facts(
    ledger: &mut Ledger,
    config: &CoordinatorConfig,
    parameters: usize,
) -> Result<Vec<u8>, Trouble> {
    let params = &config.params;
    let facts = [
        ("round.policy", config.policy.to_string()),
        ("round.seed", params.round.seed.to_string()),
        ("model.name", params.model.name.clone()),
        ("model.data", params.model.data.clone()),
        ("model.pixels", params.model.pixels.to_string()),
        ("parameters", parameters.to_string()),
        ("server", format!("{:?}", params.server)),
    ];
    if let Some(run) = ledger.fact("id")? {
        for (key, now) in facts {
            let then = ledger.fact(key)?.unwrap_or_default();
            if then != now.as_bytes() {
                let expected =
                    format!("{}, with which the run began", String::from_utf8_lossy(&then));
                return Err(agewise_core::Error::new(key, now, expected).into());
            }
        }
        return Ok(run);
    }
    let mut run = vec![0; 16];
    getrandom::fill(&mut run)
        .map_err(|error| Trouble::Broken(format!("no random numbers from the system: {error}")))?;
    ledger.set_fact("id", &run)?;
    for (key, value) in facts {
        ledger.set_fact(key, value.as_bytes())?;
    }
    let config = toml::to_string(params).unwrap_or_default();
    ledger.set_fact("config", config.as_bytes())?;
    ledger.commit()?;
    Ok(run)
}
