//! The coordinator: [`run`] serves a run on a listener until it is over or told to stop.
//!
//! ```text
//! service (tonic, many tasks) ──commands──► driver (one thread) ──► ledger (SQLite), updates, models
//!          ▲                                   │
//!          └────────── answers, news ◄─────────┘        web (axum) ──reads──► shared, ledger
//! ```

pub mod audit;
mod command;
mod doorway;
mod driver;
mod gate;
mod intake;
mod ledger;
mod metrics;
mod models;
mod population;
mod refusal;
mod roster;
mod round;
mod service;
mod shared;
mod sketches;
mod trouble;
mod web;

pub use roster::{Roster, RosterClient, RosterToken};
pub use trouble::Trouble;

use crate::config::{CoordinatorConfig, LotSource};
use crate::hex::{hex, unhex};
use crate::honesty::identity::write_secret;
use crate::honesty::seeds::SeedChains;
use crate::model::GlobalModel;
use crate::participant::with_causes;
use crate::proto::coordinator_server::CoordinatorServer;
use crate::tls::ServerIdentity;
use command::Command;
use doorway::{CallDeadlines, Doorway, Limits, bounded};
use driver::{Driver, Parts, WallClock};
use gate::Gate;
use intake::Spool;
use ledger::Ledger;
use models::ModelStore;
use service::{LARGEST_MESSAGE, Service};
use shared::Shared;
use sketches::Sketches;
use std::fs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;

/// The file of the ledger inside the state folder.
pub const LEDGER: &str = "ledger.sqlite";

/// The file of the seeds' secret inside the state folder.
const SECRET: &str = "seeds.key";

/// How long calls may take to end when the coordinator stops.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// A coordinator that is ready to be run.
pub struct Coordinator {
    config: CoordinatorConfig,
    model: Box<dyn GlobalModel>,
    resume: bool,
    identity: Option<ServerIdentity>,
    web: Option<TcpListener>,
    run: Option<[u8; 16]>,
    is_gullible: bool,
    wall_clock: WallClock,
}

impl Coordinator {
    /// A coordinator for a new run.
    pub fn new(config: CoordinatorConfig, model: Box<dyn GlobalModel>) -> Self {
        let wall_clock: WallClock = Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_millis() as i64)
        });
        Self {
            config,
            model,
            resume: false,
            identity: None,
            web: None,
            run: None,
            is_gullible: false,
            wall_clock,
        }
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

    /// With this as the id of a new run, instead of a random one: with the same keys and seeds, lots are the same again.
    #[must_use]
    pub fn with_run(self, run: [u8; 16]) -> Self {
        Self { run: Some(run), ..self }
    }

    /// Believes every client that says that its lot wins, whatever its age and its proof: only to show what selfish clients do then.
    #[must_use]
    pub fn gullible(self) -> Self {
        Self { is_gullible: true, ..self }
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
    let Coordinator { config, model, resume, identity, web, run, is_gullible, wall_clock } =
        coordinator;
    let address = listener.local_addr().map_err(|error| Trouble::Network(error.to_string()))?;
    check_address(address, identity.is_some(), config.params.access.tokens)?;
    let limits = &config.params.limits;
    let deadlines = CallDeadlines {
        short: Duration::from_secs_f64(limits.call_seconds),
        report: config.report_window(),
    };
    let mut server = bounded(Server::builder().layer(deadlines));
    if let Some(identity) = identity {
        server = server.tls_config(identity.config()).map_err(|error| {
            let why = with_causes(&error);
            let expected = format!("a certificate and the key that belongs to it, as PEM ({why})");
            agewise_core::Error::new("tls.certificate, tls.key", "these files", expected)
        })?;
    }
    let report_window = config.report_window();
    let calls = limits.calls as usize;
    let connections = within_files(limits.connections as usize, config.max_cohort)?;
    let limits = Limits {
        connections,
        strangers: (limits.strangers as usize).min(connections / 2).max(1),
        patience: Duration::from_secs_f64(limits.stranger_seconds),
    };
    let state = config.params.state.clone();
    let shared = Arc::new(Shared::new(state.join(LEDGER)));
    let prepare = {
        let shared = shared.clone();
        let beginning = Beginning { resume, run, is_gullible };
        move || prepare(config, model, beginning, shared, wall_clock)
    };
    let prepared = tokio::task::spawn_blocking(prepare).await;
    let (driver, lock) =
        prepared.map_err(|error| Trouble::Network(format!("the start failed: {error}")))??;

    let gate = driver.gate();
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
        // Who is on this machine may look; elsewhere one has to be an observer.
        let is_here = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let gate = (!is_here).then(|| gate.clone());
        tokio::spawn(web::serve(listener, shared.clone(), gate, until_stopped(stopped.clone())))
    });
    let incoming = Doorway::new(listener, limits, shared.door.clone());
    let service = Service::new(commands.clone(), gate, shared, calls, report_window);
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

/// As many connections as leave enough files for everything else: the ledger, the page, and an update of each client of a round.
fn within_files(connections: usize, max_cohort: usize) -> Result<usize, Trouble> {
    let Some(files) = open_files() else {
        return Ok(connections);
    };
    let others = 64 + web::MOST_CONNECTIONS + max_cohort.min(files / 4);
    let most = files.saturating_sub(others);
    if most < 16 {
        let expected = format!("a limit of open files above {}: see ulimit -n", others + 16);
        return Err(agewise_core::Error::new("open files", files, expected).into());
    }
    if most < connections {
        tracing::warn!(files, connections = most, "fewer connections, as there are too few files");
    }
    Ok(most.min(connections))
}

/// How many files this process may have open, where the system says so.
fn open_files() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

fn network(error: impl std::fmt::Display) -> Trouble {
    Trouble::Network(format!("network: {error}"))
}

/// Without TLS everyone on the way can read and change everything, so nobody may be on the way.
fn check_address(
    address: SocketAddr,
    is_encrypted: bool,
    needs_tokens: bool,
) -> Result<(), Trouble> {
    if address.ip().is_loopback() || (is_encrypted && needs_tokens) {
        return Ok(());
    }
    if is_encrypted {
        let expected = format!("true, as everybody can reach {address}");
        return Err(agewise_core::Error::new("access.tokens", false, expected).into());
    }
    let expected = "a loopback address, or tls.certificate and tls.key";
    Err(agewise_core::Error::new("listen", address, expected).into())
}

/// How a coordinator begins.
#[derive(Clone, Copy)]
struct Beginning {
    resume: bool,
    run: Option<[u8; 16]>,
    is_gullible: bool,
}

/// Opens the state folder, and reads where the run stands.
fn prepare(
    config: CoordinatorConfig,
    model: Box<dyn GlobalModel>,
    beginning: Beginning,
    shared: Arc<Shared>,
    wall_clock: WallClock,
) -> Result<(Driver, fs::File), Trouble> {
    let state = config.params.state.clone();
    let path = state.join(LEDGER);
    if !beginning.resume && path.is_file() && open_ledger_to_read(&path)?.fact("id")?.is_some() {
        let expected = "a folder without a run (--resume continues the one that is there)";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    }
    make_private(&state)?;
    let lock = lock(&state)?;
    let mut ledger = open_ledger(&path)?;
    let has_run = ledger.fact("id")?.is_some();
    let has_models =
        fs::read_dir(state.join("models")).is_ok_and(|mut files| files.next().is_some());
    if !has_run && has_models {
        let expected = "a folder with the ledger of its models, or without both";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    }
    let secret = match config.params.round.lots {
        LotSource::Proven => Some(secret(&state.join(SECRET), has_run)?),
        LotSource::Seeded => None,
    };
    let run = check_facts(&mut ledger, &config, model.parameters(), secret, beginning.run)?;
    let calls = config.params.limits.calls_per_second;
    let gate = Gate::new(run.clone(), config.params.access.tokens, calls).map_err(no_random)?;
    let keep = config.params.model.keep as usize;
    let models = ModelStore::open(state.join("models"), keep)?;
    let spool = Spool::new(state.join("updates"));
    let gate = Arc::new(gate);
    let is_gullible = beginning.is_gullible;
    let sketches =
        if config.wants_sketches { Some(Sketches::new(&*model, config.seed())?) } else { None };
    let parts = Parts {
        config,
        model,
        ledger,
        models,
        spool,
        run,
        gate,
        secret,
        settings: 0,
        is_gullible,
        sketches,
        shared,
        wall_clock,
    };
    Ok((Driver::new(parts)?, lock))
}

/// The ledger in a file, or a new one; of this version.
fn open_ledger(path: &Path) -> Result<Ledger, Trouble> {
    of_this_version(Ledger::open(path)?, path)
}

fn of_this_version(ledger: Ledger, path: &Path) -> Result<Ledger, Trouble> {
    if ledger.has_known_schema()? {
        return Ok(ledger);
    }
    let shown = path.display();
    Err(Trouble::Broken(format!("{shown}: expected a ledger of this version")))
}

/// The ledger in a file that is there, to be read beside others who may write.
fn open_ledger_to_read(path: &Path) -> Result<Ledger, Trouble> {
    if !path.is_file() {
        let expected = "a folder with the ledger of a run";
        let folder = path.parent().unwrap_or(path);
        return Err(agewise_core::Error::new("state", folder.display(), expected).into());
    }
    of_this_version(Ledger::open_to_read(path)?, path)
}

/// What all seeds of a run follow from: in a file of its own, as the ledger may be read by others.
fn secret(path: &Path, has_run: bool) -> Result<[u8; 32], Trouble> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let bytes = unhex(text.trim()).and_then(|bytes| bytes.try_into().ok());
            let wrong = || Trouble::Broken(format!("{}: expected 64 digits", path.display()));
            bytes.ok_or_else(wrong)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_run => {
            let expected = "the secret of this run: restore it from where the ledger is from";
            Err(agewise_core::Error::new("state", path.display(), expected).into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).map_err(no_random)?;
            write_secret(path, &format!("{}\n", hex(&secret))).map_err(Trouble::file(path))?;
            Ok(secret)
        }
        Err(error) => Err(Trouble::file(path)(error)),
    }
}

/// Under which key the anchor of a chain stands in the ledger.
pub(crate) fn anchor_fact(chain: u64) -> String {
    format!("anchor.{chain}")
}

fn no_random(error: getrandom::Error) -> Trouble {
    Trouble::Broken(format!("no random numbers from the system: {error}"))
}

/// Makes a folder that is only its owner's; one that is there stays as it is.
fn make_private(folder: &Path) -> Result<(), Trouble> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(folder).map_err(Trouble::file(folder))
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
    secret: Option<[u8; 32]>,
    new_run: Option<[u8; 16]>,
) -> Result<Vec<u8>, Trouble> {
    let params = &config.params;
    let anchor = secret.map(|secret| hex(&SeedChains::new(secret).commitment(0).anchor));
    let facts = [
        ("round.policy", config.policy.to_string()),
        ("round.seed", params.round.seed.to_string()),
        ("round.lots", params.round.lots.name().to_string()),
        (&*anchor_fact(0), anchor.unwrap_or_default()),
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
    let mut run = new_run.unwrap_or_default().to_vec();
    if new_run.is_none() {
        getrandom::fill(&mut run).map_err(no_random)?;
    }
    ledger.set_fact("id", &run)?;
    for (key, value) in facts {
        ledger.set_fact(key, value.as_bytes())?;
    }
    ledger.commit()?;
    Ok(run)
}
