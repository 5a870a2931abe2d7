//! `agewise client`: one client that decides by itself.

use super::Failure;
use super::network::{ClientData, EndpointArgs, LogArgs, TokenArgs, block_on, show, told_to_stop};
use agewise_core::Error;
use agewise_server::client::{Client, ClientParams};
use agewise_server::native::{ImageClient, SharedImages};
use clap::Args;
use std::path::PathBuf;

// In lines that fit a narrow terminal.
const USAGE: &str = "\
agewise client --coordinator <URL> --data <NAME>
                      --state <DIR> [OPTIONS]";

const EXAMPLES: &str = "\
Examples:
  agewise client --data mnist --name site-7 \\
    --coordinator https://fl.example.org:7070 \\
    --state /var/lib/agewise --token-file token
  agewise client --data digits --share 3/20 --state c3 \\
    --coordinator https://localhost:7070 \\
    --ca try/tls/ca.pem --token-file try/token-3";

#[derive(Debug, Args)]
#[command(about = "Take part in a run: decide by age, train, report", after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    connection: EndpointArgs,

    #[command(flatten)]
    token: TokenArgs,

    #[command(flatten)]
    data: ClientData,

    /// Which share of the data this client has: I/N is the I-th of N, from 0 [default: all of it]
    #[arg(long, value_name = "I/N")]
    share: Option<String>,

    /// Where the client keeps its name, its key and its age
    #[arg(long, value_name = "DIR")]
    state: PathBuf,

    /// The name of the client, which cannot change [default: a random name, kept in its state]
    #[arg(long)]
    name: Option<String>,

    /// Print events as lines of JSON on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    log: LogArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ClientArgs) -> Result<(), Failure> {
    args.log.begin();
    let (share, shares) = args.share.as_deref().map_or(Ok((0, 1)), parse_share)?;
    let (dataset, partition) = args.data.split(shares)?;
    let indices = partition.of(share as usize).to_vec();
    let task = ImageClient::new(SharedImages::new(dataset, 1)?, indices);
    let params = ClientParams {
        trust: args.connection.trust.trust()?,
        name: args.name.clone(),
        state: Some(args.state.clone()),
        token: args.token.read()?,
        ..ClientParams::new(&args.connection.coordinator)
    };
    block_on(async {
        let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let client = Client::open(params, Box::new(task)).await?.with_events(events);
        let name = client.name().to_string();
        let json = args.json;
        let telling = tokio::spawn(async move {
            while let Some(event) = heard.recv().await {
                show(&name, &event, json);
            }
        });
        client.run(told_to_stop()).await?;
        telling.await.ok();
        Ok(())
    })
}

fn parse_share(text: &str) -> Result<(u64, u64), Failure> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(share, of)| Some((share.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((share, of)) if share < of => Ok((share, of)),
        _ => {
            let expected = "I/N with I from 0 to N - 1, such as 3/20";
            Err(Error::new("share", text, expected).into())
        }
    }
}
