//! What all commands of the deployment share: where the coordinator is, which data a client has, logs, and signals.

use super::Failure;
use super::data::{DataDir, PartitionArgs};
use agewise_server::client::{ClientError, Event};
use agewise_server::crypto::token::Token;
use agewise_server::tls::Trust;
use agewise_train::data::{Dataset, Partition, load};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use tracing_subscriber::filter::LevelFilter;

/// Where the coordinator is.
#[derive(Debug, Args)]
pub(crate) struct EndpointArgs {
    /// The coordinator: https://HOST:PORT (http:// only on loopback)
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: String,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Which certificates are trusted.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The authority that signed the coordinator's certificate, PEM [default: the public ones]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl TrustArgs {
    pub(crate) fn trust(&self) -> Result<Trust, Failure> {
        match &self.ca {
            None => Ok(Trust::Public),
            Some(path) => {
                let pem = read(path, "ca")?;
                if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
                    let shown = path.display();
                    let message = format!("ca = {shown}: expected a certificate as PEM");
                    return Err(Failure::BadInput(message));
                }
                Ok(Trust::Authority(pem))
            }
        }
    }
}

/// Where a token is. It is a secret, so it is never an argument: other users of a machine can see those.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// A file with the token from the operator (agewise coordinator enroll)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    pub(crate) fn read(&self) -> Result<Option<Token>, Failure> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let mut tokens = read_tokens(path, "token-file")?;
        if tokens.len() > 1 {
            let (shown, count) = (path.display(), tokens.len());
            let message = format!("token-file = {shown}: expected one token, found {count}");
            return Err(Failure::BadInput(message));
        }
        Ok(tokens.pop())
    }
}

/// The tokens in a file, one on each line.
pub(crate) fn read_tokens(path: &Path, field: &str) -> Result<Vec<Token>, Failure> {
    let bytes = read(path, field)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let tokens = lines.map(|(number, line)| {
        line.parse::<Token>().map_err(|error| {
            let (shown, line) = (path.display(), number + 1);
            let expected = error.expected();
            Failure::BadInput(format!("{field} = {shown}: line {line}: expected {expected}"))
        })
    });
    let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
    if tokens.is_empty() {
        let shown = path.display();
        return Err(Failure::BadInput(format!("{field} = {shown}: expected a token")));
    }
    Ok(tokens)
}

/// Which data clients have.
#[derive(Debug, Args)]
pub(crate) struct ClientData {
    /// The data set: digits, mnist, ... (see agewise data list)
    #[arg(long, value_name = "NAME")]
    data: String,

    #[command(flatten)]
    place: DataDir,

    #[command(flatten)]
    partition: PartitionArgs,
}

impl ClientData {
    /// The data, and how so many clients share the training images.
    pub(crate) fn split(&self, clients: u64) -> Result<(Dataset, Partition), Failure> {
        let dataset = load(&self.data, &self.place.folders())?;
        warn_of_altered(&dataset);
        let partition = self.partition.params(clients, 1).check(&dataset)?.split();
        Ok((dataset, partition))
    }
}

/// Says in the log which files of the data are not those that were published.
pub(crate) fn warn_of_altered(dataset: &Dataset) {
    for file in &dataset.altered {
        tracing::warn!("{file}");
    }
}

/// How a command says what it does.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Lines for people or for programs
    #[arg(long, value_parser = ["text", "json"], default_value = "text", value_name = "FORMAT")]
    log: String,

    /// The least important lines that are shown
    #[arg(long, value_parser = ["error", "warn", "info", "debug"], default_value = "info", value_name = "LEVEL")]
    log_level: String,
}

impl LogArgs {
    /// Logs go to standard error from now on.
    pub(crate) fn begin(&self) {
        use std::io::IsTerminal;
        // The parser lets known names pass only.
        let level = self.log_level.parse().unwrap_or(LevelFilter::INFO);
        let lines = tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .with_max_level(level)
            // A log that cannot be written (a full disk) is not a reason to end.
            .log_internal_errors(false);
        if self.log == "json" { lines.json().init() } else { lines.init() }
    }
}

/// Reads a file that a flag or a setting names.
pub(crate) fn read(path: &Path, field: &str) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        Failure::BadInput(format!(
            "{field} = {}: expected a readable file ({error})",
            path.display()
        ))
    })
}

/// Runs to its end what needs the network.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Io(format!("cannot start threads: {error}")))?;
    let result = runtime.block_on(work);
    // Training whose result is not needed any more must not delay the end.
    runtime.shutdown_background();
    result
}

/// Ctrl-C, or the system's wish that the process ends.
pub(crate) async fn told_to_stop() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    interrupted.await.ok();
}

impl From<ClientError> for Failure {
    fn from(why: ClientError) -> Self {
        match why {
            ClientError::Input(error) => error.into(),
            _ => Self::Io(why.to_string()),
        }
    }
}

/// Says what happened to a client: a line in the log, or one of JSON on standard output.
pub(crate) fn show(client: &str, event: &Event, json: bool) {
    if json {
        let line = serde_json::to_string(&EventLine { client, event }).unwrap_or_default();
        // The reader may have closed the pipe, which is no reason to stop training.
        super::print(&format!("{line}\n")).ok();
        return;
    }
    match event {
        Event::Enrolled { client: number, waiting_since } => {
            tracing::info!(client, number, waiting_since, "enrolled");
        }
        Event::Joined { round, age } => tracing::info!(client, round, age, "joined"),
        Event::NotJoined { round, why } => {
            tracing::info!(client, round, why, "did not join the round");
        }
        Event::Accepted { round } => tracing::info!(client, round, "accepted"),
        Event::NotAccepted { round, why } => {
            tracing::warn!(client, round, why, "update refused");
        }
        Event::Disconnected { why } => tracing::warn!(client, why, "disconnected, trying again"),
        Event::StateNotWritten { why } => {
            tracing::warn!(client, why, "the state cannot be written, trying again");
        }
        Event::Failed { why } => tracing::error!(client, why, "stopped after an error"),
        Event::Finished => tracing::info!(client, "the run is over"),
    }
}

/// An event as one line of JSON.
#[derive(Serialize)]
struct EventLine<'a> {
    client: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}
