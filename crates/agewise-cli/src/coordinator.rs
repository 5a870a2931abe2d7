//! `agewise coordinator`: a run over the network.

use super::admin::{EnrollArgs, ListArgs, ReinstateArgs, RevokeArgs, RollbackArgs};
use super::config_coordinator::TEMPLATE;
use super::data::DataDir;
use super::network::{LogArgs, block_on, read, told_to_stop, warn_of_altered};
use super::table::prose;
use super::{Failure, admin, deployment_config, print};
use agewise_server::CoordinatorConfig;
use agewise_server::coordinator::{self, Coordinator, CoordinatorError};
use agewise_server::native::coordinator_task;
use agewise_server::tls::{ServerIdentity, TrialCertificates};
use agewise_train::data::load;
use clap::{Args, Subcommand};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;

const EXAMPLES: &str = "\
Examples:
  agewise coordinator init try
  agewise coordinator enroll --count 20 \\
    --config try/coordinator.toml --out try/tokens
  agewise coordinator --config try/coordinator.toml
  agewise swarm --clients 20 --data digits \\
    --coordinator https://localhost:7070 \\
    --ca try/tls/ca.pem --tokens try/tokens \\
    --state try/clients
  agewise coordinator revoke swarm-00003 \\
    --config try/coordinator.toml
  agewise audit try/state";

#[derive(Debug, Args)]
#[command(
    about = "Run the coordinator of a deployment",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct CoordinatorArgs {
    #[command(subcommand)]
    command: Option<CoordinatorCommand>,

    /// The configuration (see agewise coordinator init)
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,

    /// Resume the run in the state folder, or begin it if there is none yet
    #[arg(long)]
    resume: bool,

    #[command(flatten)]
    place: DataDir,

    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum CoordinatorCommand {
    /// Write a complete, commented configuration, and TLS certificates for a first try
    Init(InitArgs),
    /// Make tokens: for clients, which enrol once with each, or for observers and operators
    Enroll(EnrollArgs),
    /// Show the clients and the tokens of a run
    List(ListArgs),
    /// Let a client take part again that was suspended after too many failures
    Reinstate(ReinstateArgs),
    /// Revoke a client or a token, for good and at once
    Revoke(RevokeArgs),
    /// Go back to the model with which a round began; ages, credits and seeds stay
    Rollback(RollbackArgs),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// The folder that gets coordinator.toml and tls/
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Host names and addresses under which clients reach the coordinator
    #[arg(long, value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
    host: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: CoordinatorArgs) -> Result<(), Failure> {
    match (args.command, args.config) {
        (Some(CoordinatorCommand::Init(init)), _) => write_example(&init),
        (Some(CoordinatorCommand::Enroll(args)), _) => admin::enroll(&args),
        (Some(CoordinatorCommand::List(args)), _) => admin::list(&args),
        (Some(CoordinatorCommand::Reinstate(args)), _) => admin::reinstate(&args),
        (Some(CoordinatorCommand::Revoke(args)), _) => admin::revoke_access(&args),
        (Some(CoordinatorCommand::Rollback(args)), _) => admin::roll_back(&args),
        (None, Some(path)) => serve(&path, args.resume, &args.place, &args.log),
        // clap asks for one of them.
        (None, None) => Err(Failure::BadInput("config: expected a file".to_string())),
    }
}

fn write_example(args: &InitArgs) -> Result<(), Failure> {
    let folder = &args.folder;
    let files = ["coordinator.toml", "tls/ca.pem", "tls/coordinator.pem", "tls/coordinator.key"];
    for name in files {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            let shown = path.display();
            return Err(Failure::BadInput(format!(
                "{shown}: the file exists already; expected a folder without it"
            )));
        }
    }
    if args.host.iter().any(String::is_empty) {
        let expected = "names and addresses such as fl.example.org";
        return Err(agewise_core::Error::new("host", "\"\"", expected).into());
    }
    let made = TrialCertificates::new(&args.host)?;
    let tls = folder.join("tls");
    fs::create_dir_all(&tls).map_err(|error| io_failure(&tls, &error))?;
    let contents = [TEMPLATE, &made.authority, &made.certificate, &made.key];
    for (name, text) in files.into_iter().zip(contents) {
        let is_secret = Path::new(name).extension().is_some_and(|end| end == "key");
        write_new(&folder.join(name), text, is_secret)?;
    }
    let shown = folder.display();
    let wrote =
        format!("Wrote {shown}/coordinator.toml and certificates for {}.", args.host.join(", "));
    print(&format!(
        "{}\n
Make 20 tokens:
  agewise coordinator enroll --count 20 \\
    --config {shown}/coordinator.toml --out {shown}/tokens
Run the coordinator:
  agewise coordinator --config {shown}/coordinator.toml
And 20 clients:
  agewise swarm --clients 20 --data digits \\
    --coordinator https://{}:7070 \\
    --ca {shown}/tls/ca.pem --tokens {shown}/tokens \\
    --state {shown}/clients
And look at it: http://127.0.0.1:7071\n",
        prose(&wrote),
        args.host.first().map_or("localhost", String::as_str)
    ))
}

/// Writes a file that must not be there yet. A secret can only be read by its owner.
fn write_new(path: &Path, text: &str, is_secret: bool) -> Result<(), Failure> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_secret {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| io_failure(path, &error))
}

fn io_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::Io(format!("{}: {error}", path.display()))
}

impl From<CoordinatorError> for Failure {
    fn from(error: CoordinatorError) -> Self {
        let message = error.to_string();
        if error.is_bad_input() { Self::BadInput(message) } else { Self::Io(message) }
    }
}

fn serve(path: &Path, resume: bool, place: &DataDir, log: &LogArgs) -> Result<(), Failure> {
    let mut params = deployment_config::read(path)?;
    // Files are looked for beside the configuration, from wherever it is started.
    let here = path.parent().unwrap_or(Path::new("")).to_path_buf();
    for file in [&mut params.state, &mut params.tls.certificate, &mut params.tls.key] {
        if !file.as_os_str().is_empty() {
            *file = here.join(&*file);
        }
    }
    let config = params.check()?;
    if let Some(cost) = config.max_age_cost {
        // If standard error is closed too, there is nowhere left to write.
        let _ = writeln!(io::stderr(), "{}", prose(&format!("caution: round.{cost}")));
    }
    let identity = identity(&config)?;
    let dataset = load(&config.params.model.data, &place.folders())?;
    log.begin();
    warn_of_altered(&dataset);
    let task = coordinator_task(&config.params.model, config.training, dataset)?;
    block_on(async {
        let listener = bind("listen", &config.params.listen).await?;
        let web = match config.params.http.as_str() {
            "" => None,
            address => Some(bind("http", address).await?),
        };
        announce(&listener, web.as_ref(), identity.is_some());
        let mut coordinator = Coordinator::new(config, Arc::new(task));
        if resume {
            coordinator = coordinator.resuming();
        }
        if let Some(identity) = identity {
            coordinator = coordinator.with_identity(identity);
        }
        if let Some(web) = web {
            coordinator = coordinator.with_web(web);
        }
        coordinator::run(listener, coordinator, told_to_stop()).await?;
        Ok(())
    })
}

fn identity(config: &CoordinatorConfig) -> Result<Option<ServerIdentity>, Failure> {
    let tls = &config.params.tls;
    match (tls.certificate.as_os_str().is_empty(), tls.key.as_os_str().is_empty()) {
        (true, true) => Ok(None),
        (false, false) => {
            let certificate = read(&tls.certificate, "tls.certificate")?;
            let key = read(&tls.key, "tls.key")?;
            Ok(Some(ServerIdentity::from_pem(&certificate, &key)))
        }
        (no_certificate, _) => {
            let missing = if no_certificate { "tls.certificate" } else { "tls.key" };
            Err(Failure::BadInput(format!(
                "{missing} = \"\": expected a file, as the other one is given"
            )))
        }
    }
}

async fn bind(field: &str, address: &str) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| match error.kind() {
        // Another program listens there, or it is not ours to listen there: another address would do.
        io::ErrorKind::AddrInUse
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::PermissionDenied => {
            Failure::BadInput(format!("{field} = {address}: expected a free address ({error})"))
        }
        _ => Failure::BadInput(format!("{field} = {address}: expected HOST:PORT ({error})")),
    })
}

/// Says where everything is: with port 0 the system has chosen.
fn announce(listener: &TcpListener, web: Option<&TcpListener>, is_encrypted: bool) {
    let scheme = if is_encrypted { "https" } else { "http" };
    if let Ok(address) = listener.local_addr() {
        tracing::info!("clients: {scheme}://{address}");
    }
    if let Some(Ok(address)) = web.map(TcpListener::local_addr) {
        tracing::info!("page: http://{address}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_server::CoordinatorParams;

    #[test]
    fn the_example_has_every_setting_at_its_default() {
        let read: CoordinatorParams = toml::from_str(TEMPLATE).unwrap();
        let mut expected = CoordinatorParams::default();
        expected.tls.certificate = "tls/coordinator.pem".into();
        expected.tls.key = "tls/coordinator.key".into();
        assert_eq!(read, expected);
        let keys = |text: &str| -> Vec<String> {
            let table: toml::Table = text.parse().unwrap();
            let inner = |(name, value): (&String, &toml::Value)| match value {
                toml::Value::Table(inner) => {
                    inner.keys().map(|key| format!("{name}.{key}")).collect::<Vec<_>>()
                }
                _ => vec![name.clone()],
            };
            table.iter().flat_map(inner).collect()
        };
        let all = toml::to_string(&CoordinatorParams::default()).unwrap();
        assert_eq!(keys(TEMPLATE), keys(&all));
        read.check().unwrap();
    }
}
