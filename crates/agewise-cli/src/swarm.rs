//! `agewise swarm`: many clients in one process.

use super::network::{
    ClientData, EndpointArgs, LogArgs, block_on, read_tokens, show, told_to_stop,
};
use super::{Failure, whole_number};
use agewise_server::client::Event;
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::crypto::token::Token;
use agewise_server::native::{ImageClient, SharedImages};
use clap::Args;
use std::path::{Path, PathBuf};

// In lines that fit a narrow terminal.
const USAGE: &str = "\
agewise swarm --coordinator <URL> --data <NAME>
                     --clients <K> [OPTIONS]";

const EXAMPLES: &str = "\
Example:
  agewise swarm --clients 100 --data digits \\
    --coordinator https://localhost:7070 \\
    --ca try/tls/ca.pem --tokens try/tokens \\
    --partition dirichlet:0.3";

#[derive(Debug, Args)]
#[command(about = "Run many clients in one process, for trials and load tests", after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct SwarmArgs {
    /// The number of clients
    #[arg(long, value_name = "K", value_parser = whole_number::parse)]
    clients: u64,

    #[command(flatten)]
    connection: EndpointArgs,

    #[command(flatten)]
    data: ClientData,

    /// A file with a token for each client, one on a line (agewise coordinator enroll --count K --out FILE)
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// A folder in which each client has one for its key and its age [default: new keys, which last until the end of the program]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Clients are called PREFIX-00000, PREFIX-00001, ...
    #[arg(long, default_value = "swarm")]
    prefix: String,

    /// The number of clients that train at a time [default: all cores]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Print events as lines of JSON on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    log: LogArgs,
}

/// A token for each client.
fn tokens(path: &Path, clients: u64) -> Result<Vec<Token>, Failure> {
    let tokens = read_tokens(path, "tokens")?;
    if (tokens.len() as u64) < clients {
        let (shown, found) = (path.display(), tokens.len());
        let message = format!("tokens = {shown}: expected {clients} tokens, found {found}");
        return Err(Failure::BadInput(message));
    }
    Ok(tokens)
}

/// Runs the command.
pub(crate) fn run(args: &SwarmArgs) -> Result<(), Failure> {
    args.log.begin();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = args.threads.map_or(cores, usize::from);
    let (dataset, partition) = args.data.split(args.clients)?;
    let tasks = ImageClient::all(&SharedImages::new(dataset, threads)?, &partition);
    let params = SwarmParams {
        trust: args.connection.trust.trust()?,
        prefix: args.prefix.clone(),
        state: args.state.clone(),
        tokens: args.tokens.as_deref().map_or(Ok(Vec::new()), |path| tokens(path, args.clients))?,
        ..SwarmParams::new(&args.connection.coordinator)
    };
    block_on(async {
        let (events, mut heard) = tokio::sync::mpsc::unbounded_channel::<(usize, Event)>();
        let (json, prefix) = (args.json, args.prefix.clone());
        let telling = tokio::spawn(async move {
            while let Some((number, event)) = heard.recv().await {
                show(&format!("{prefix}-{number:05}"), &event, json);
            }
        });
        swarm::run(params, tasks, Some(events), told_to_stop()).await?;
        telling.await.ok();
        Ok(())
    })
}
