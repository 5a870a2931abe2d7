//! `agewise coordinator enroll`, `list`, `reinstate`, `revoke` and `rollback`: what an operator does with the state folder of a run, also while it runs.

use super::network::{TokenArgs, TrustArgs, block_on};
use super::table::table;
use super::{Failure, deployment_config, print, print_json, whole_number};
use agewise_core::Error;
use agewise_server::coordinator::{Admin, ClientInfo, RollbackOutcome};
use agewise_server::crypto::token::{Role, Token};
use agewise_server::remote::{RemoteError, revoke};
use clap::Args;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
pub(super) struct EnrollArgs {
    /// The configuration of the coordinator
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// The rights of the token: client (enrols once), observer (reads the status), operator (reads and revokes)
    #[arg(long, default_value = "client")]
    role: String,

    /// The name of the client that may enrol with it, or of its holder
    #[arg(long)]
    name: Option<String>,

    /// How many tokens
    #[arg(long, value_name = "K", default_value = "1", value_parser = whole_number::parse)]
    count: u64,

    /// A new file for the tokens, which only its owner can read [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// The configuration of the coordinator
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Print one JSON document instead of the tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReinstateArgs {
    /// The name of a client that is suspended (see list)
    #[arg(value_name = "NAME")]
    name: String,

    /// The configuration of the coordinator
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// The name of a client, or the public part of a token (see list)
    #[arg(value_name = "WHO")]
    who: String,

    /// The configuration of the coordinator
    #[arg(long, value_name = "FILE", required_unless_present = "coordinator")]
    config: Option<PathBuf>,

    /// Over the network instead, with an operator's token: https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with = "config", requires = "token_file")]
    coordinator: Option<String>,

    #[command(flatten)]
    trust: TrustArgs,

    #[command(flatten)]
    token: TokenArgs,
}

#[derive(Debug, Args)]
pub(super) struct RollbackArgs {
    /// The first round whose model is not to be used any more
    #[arg(value_name = "ROUND")]
    round: u64,

    /// The configuration of the coordinator
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// How long to wait for a coordinator that may run: it looks into the ledger four times a second, unless it is aggregating.
const ROLLBACK_PATIENCE: Duration = Duration::from_secs(3);

/// The admin of the run that a configuration is for.
fn open(path: &Path) -> Result<Admin, Failure> {
    let params = deployment_config::read(path)?;
    let here = path.parent().unwrap_or(Path::new(""));
    Ok(Admin::open(&here.join(params.state))?)
}

/// Makes tokens, and prints them or writes them to a file: this is the only time that they are shown.
pub(super) fn enroll(args: &EnrollArgs) -> Result<(), Failure> {
    let role: Role = args.role.parse()?;
    let mut admin = open(&args.config)?;
    let Some(path) = &args.out else {
        return print(&lines(&admin.invite(role, args.name.as_deref(), args.count)?));
    };
    // The file comes first: a token that cannot be written down is lost.
    let mut file = NewSecret::create(path)?;
    let tokens = admin.invite(role, args.name.as_deref(), args.count)?;
    file.write(&lines(&tokens))?;
    let (count, shown) = (tokens.len(), path.display());
    let what = if count == 1 { "token" } else { "tokens" };
    print(&format!("Wrote {count} {what} for the role of {} to {shown}.\n", role.name()))
}

/// A token on each line.
fn lines(tokens: &[Token]) -> String {
    tokens.iter().map(|token| token.reveal() + "\n").collect()
}

/// A file that was not there before, and that only its owner can read. It goes again unless it was written.
struct NewSecret<'a> {
    path: &'a Path,
    file: File,
    is_written: bool,
}

impl<'a> NewSecret<'a> {
    fn create(path: &'a Path) -> Result<Self, Failure> {
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        match options.open(path) {
            Ok(file) => Ok(Self { path, file, is_written: false }),
            Err(error) => {
                let expected = format!("a new file in a folder that is there ({error})");
                Err(Error::new("out", path.display(), expected).into())
            }
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        let shown = self.path.display();
        written.map_err(|error| Failure::Io(format!("{shown}: {error}")))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for NewSecret<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            // If the removal fails, the file is empty or holds tokens that were never handed out.
            fs::remove_file(self.path).ok();
        }
    }
}

/// Lists clients and tokens.
pub(super) fn list(args: &ListArgs) -> Result<(), Failure> {
    let admin = open(&args.config)?;
    let (clients, tokens) = (admin.clients()?, admin.tokens()?);
    if args.json {
        return print_json(&json!({"clients": clients, "tokens": tokens}));
    }
    let state = |revoked: bool, otherwise: &str| {
        if revoked { "revoked".to_string() } else { otherwise.to_string() }
    };
    let mut text = String::new();
    if !clients.is_empty() {
        let rows = clients.iter().map(|client| {
            let ClientInfo { client, name, key, revoked, suspended, failures: _ } = client;
            let suspended = suspended.as_ref().map(|why| format!("suspended: {why}"));
            let otherwise = suspended.as_deref().unwrap_or("enrolled");
            [client.to_string(), name.clone(), key.clone(), state(*revoked, otherwise)]
        });
        text = format!("{}\n", table(["client", "name", "key", "state"], [0], rows));
    }
    if tokens.is_empty() {
        text += "No tokens: agewise coordinator enroll makes them.\n";
    } else {
        let rows = tokens.iter().map(|token| {
            let used = token.used_by.map(|client| format!("used by client {client}"));
            let used = used.unwrap_or_else(|| "good".to_string());
            let name = token.name.clone().unwrap_or_default();
            [token.id.clone(), token.role.name().to_string(), name, state(token.revoked, &used)]
        });
        let tokens = table(["token", "role", "name", "state"], [], rows);
        text = format!("{text}{tokens}\n");
    }
    print(&text)
}

/// Lifts the suspension of a client.
pub(super) fn reinstate(args: &ReinstateArgs) -> Result<(), Failure> {
    open(&args.config)?.reinstate(&args.name)?;
    print(&format!("Reinstated: client {}.\n", args.name))
}

/// Revokes a client or a token.
pub(super) fn revoke_access(args: &RevokeArgs) -> Result<(), Failure> {
    let revoked = match (&args.config, &args.coordinator) {
        (Some(path), _) => open(path)?.revoke(&args.who)?,
        (None, Some(url)) => {
            let (trust, token) = (args.trust.trust()?, args.token.read()?);
            block_on(async {
                revoke(url, &trust, token.as_ref(), &args.who).await.map_err(Failure::from)
            })?
        }
        // clap asks for one of them.
        (None, None) => return Err(Error::new("config", "", "a file").into()),
    };
    print(&format!("Revoked: {revoked}.\n"))
}

/// Goes back to the model with which a round began.
pub(super) fn roll_back(args: &RollbackArgs) -> Result<(), Failure> {
    let mut admin = open(&args.config)?;
    let version = admin.roll_back(args.round)?;
    let begun = Instant::now();
    loop {
        match admin.last_rollback()? {
            Some(RollbackOutcome::Done { round }) => {
                return print(&format!(
                    "The run continues with model {version} from round {round} on.\n"
                ));
            }
            Some(RollbackOutcome::Refused { why }) => {
                return Err(Failure::Io(format!(
                    "the rollback to model {version} was refused: {why}"
                )));
            }
            Some(RollbackOutcome::Waiting) | None => {}
        }
        if begun.elapsed() > ROLLBACK_PATIENCE {
            return print(&format!(
                "The rollback to model {version} is pending: a running coordinator carries it out shortly, otherwise the next start with --resume does.\n"
            ));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl From<RemoteError> for Failure {
    fn from(why: RemoteError) -> Self {
        match why {
            RemoteError::Input(error) => error.into(),
            RemoteError::Refused(_) => Self::BadInput(why.to_string()),
            RemoteError::Unreachable(_) | RemoteError::Failed(_) => Self::Io(why.to_string()),
        }
    }
}
