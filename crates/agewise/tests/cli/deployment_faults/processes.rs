//! Coordinators and clients as processes that do not outlive their test.

use super::ledger::Ledger;
use crate::common::folder;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Far longer than anything here takes, also on a busy machine: a test that waits longer would wait for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(25));
    }
}

pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    /// Kills it without a warning.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Waits for its end, and gives its exit code.
    pub(crate) fn code(&mut self, what: &str) -> Option<i32> {
        let mut ended = None;
        until(what, || {
            ended = self.ended();
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

pub(crate) fn agewise() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agewise"));
    command.stdin(Stdio::null());
    command
}

/// A coordinator's folder and port, with clients beside it.
pub(crate) struct Deployment {
    pub(crate) here: PathBuf,
    port: u16,
}

/// The settings of all tests, in tables; a test adds its own behind them.
const SETTINGS: &str = "\
http = \"\"
[access]
tokens = false
[model]
name = \"softmax\"
[training]
local_work = \"1 steps\"
batch = 20
";

impl Deployment {
    pub(crate) fn new(name: &str, round: &str) -> Self {
        let here = folder(&format!("deployment-faults-{name}")).unwrap();
        let site = Self { here, port: free_port() };
        site.configure(round);
        site
    }

    /// Writes the configuration, with this table of rounds.
    pub(crate) fn configure(&self, round: &str) {
        let text = format!("listen = \"127.0.0.1:{}\"\n{SETTINGS}[round]\n{round}\n", self.port);
        fs::write(self.config(), text).unwrap();
    }

    /// Changes a piece of the configuration.
    pub(crate) fn change(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.config()).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        fs::write(self.config(), text.replace(from, to)).unwrap();
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.here.join("coordinator.toml")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.here.join("state")
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::open(&self.state().join("ledger.sqlite"))
    }

    fn append(&self, name: &str) -> File {
        OpenOptions::new().create(true).append(true).open(self.here.join(name)).unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.here.join("coordinator.log")).unwrap_or_default()
    }

    /// Starts the coordinator, or starts it again.
    pub(crate) fn coordinator(&self) -> Process {
        let mut command = agewise();
        command.args(["coordinator", "--resume", "--config"]).arg(self.config());
        self.spawn(&mut command, "coordinator.log")
    }

    /// The same, under a shell line that ends in it.
    pub(crate) fn coordinator_under(&self, line: &str) -> Process {
        let agewise = env!("CARGO_BIN_EXE_agewise");
        let config = self.config();
        let line =
            format!("{line} exec '{agewise}' coordinator --resume --config '{}'", config.display());
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::null());
        self.spawn(&mut command, "coordinator.log")
    }

    /// Its log goes through us: what is done to the files of the process is not done to it.
    fn spawn(&self, command: &mut Command, log: &str) -> Process {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut heard, mut log) = (child.stderr.take().unwrap(), self.append(log));
        std::thread::spawn(move || io::copy(&mut heard, &mut log));
        Process(child)
    }

    /// Runs the coordinator to its end, which comes by itself.
    pub(crate) fn failing_coordinator(&self) -> Output {
        agewise().args(["coordinator", "--resume", "--config"]).arg(self.config()).output().unwrap()
    }

    /// One client of several, which remembers its age and says what happens.
    pub(crate) fn client(&self, number: usize, of: usize) -> Process {
        let name = client_name(number);
        let mut command = agewise();
        command.args(["client", "--data", "digits", "--json", "--coordinator", &self.url()]);
        command.args(["--share", &format!("{number}/{of}"), "--name", &name]);
        command.arg("--state").arg(self.here.join(&name));
        let (said, log) = (self.append(&format!("{name}.jsonl")), self.append("clients.log"));
        Process(command.stdout(said).stderr(log).spawn().unwrap())
    }

    pub(crate) fn swarm(&self, clients: usize) -> Process {
        let mut command = agewise();
        command.args(["swarm", "--data", "digits", "--clients", &clients.to_string()]);
        command.args(["--coordinator", &self.url()]);
        command.arg("--state").arg(self.here.join("swarm"));
        self.spawn(&mut command, "clients.log")
    }

    /// What a client has said, over all its lives. A last line that is not complete was never said.
    pub(crate) fn said(&self, number: usize) -> Vec<Value> {
        let path = self.here.join(format!("{}.jsonl", client_name(number)));
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The status, if there is an answer.
    pub(crate) fn status(&self) -> Option<Value> {
        let output = agewise().args(["status", "--json", &self.url()]).output().unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Waits until so many rounds are over.
    pub(crate) fn until_over(&self, rounds: i64) {
        let exists = || self.state().join("ledger.sqlite").exists();
        until(&format!("{rounds} rounds"), || exists() && self.ledger().rounds_over() >= rounds);
    }

    /// Stops a coordinator that has nothing to wait for.
    pub(crate) fn stop(&self, mut coordinator: Process) {
        coordinator.terminate();
        assert_eq!(coordinator.code("the coordinator to stop"), Some(0), "{}", self.log());
    }
}

pub(crate) fn client_name(number: usize) -> String {
    format!("c{number}")
}

/// A port on which nobody listens, below those that the system gives to connections: a client that tries again and again must not meet
/// itself there while its coordinator is away.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(31);
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (first.wrapping_add(next) % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The model files that are kept, oldest first.
pub(crate) fn models(state: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(state.join("models")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "safetensors"));
    files.sort();
    files
}
