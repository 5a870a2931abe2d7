//! The first try of docs/deployment.md, with the real binary: its commands work as they are written.

use crate::common::{Outcome, folder};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has usually ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The commands of the page's blocks that are marked `sh`, in order.
fn commands() -> Outcome<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deployment.md");
    let page = fs::read_to_string(page)?;
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    Ok(blocks.map(|block| block.trim().to_string()).collect())
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Only the owner can read the tokens, and making them again neither replaces the file nor makes tokens that nobody has.
#[cfg(unix)]
fn tokens_are_their_owners(tokens: &Path, mut enroll: Command) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(tokens)?.permissions().mode() & 0o777, 0o600);
    let before = fs::read_to_string(tokens)?;
    assert_eq!(before.lines().count(), 20);
    let count = || -> Outcome<i64> {
        let ledger = rusqlite::Connection::open(tokens.with_file_name("state/ledger.sqlite"))?;
        Ok(ledger.query_row("SELECT COUNT(*) FROM tokens", [], |row| row.get(0))?)
    };
    let made = count()?;
    let output = enroll.output()?;
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr)?;
    assert!(error.contains("out = try/tokens: expected a new file"), "{error}");
    assert_eq!(fs::read_to_string(tokens)?, before);
    assert_eq!(count()?, made);
    Ok(())
}

#[cfg(not(unix))]
fn tokens_are_their_owners(_: &Path, _: Command) -> Outcome {
    Ok(())
}

#[test]
fn the_first_try_of_the_docs_works() -> Outcome {
    let here = folder("deployment-first-try")?;
    let ports = [("7070", free_port()?.to_string()), ("7071", free_port()?.to_string())];
    let at_free_ports = |text: &str| {
        ports.iter().fold(text.to_string(), |text, (port, free)| text.replace(port, free))
    };
    let commands = commands()?;
    let [init, enroll, coordinator, swarm, observer, status, audit] = &commands[..] else {
        return Err(format!("expected seven commands, found {commands:?}").into());
    };
    let run = |command: &str| {
        let agewise = env!("CARGO_BIN_EXE_agewise");
        let command = at_free_ports(command).replacen("agewise", &format!("exec {agewise}"), 1);
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(&here).stdin(Stdio::null());
        shell
    };
    let output = run(init).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout)?.contains("agewise swarm --clients 20"));
    let path = here.join("try/coordinator.toml");
    let quick = at_free_ports(&fs::read_to_string(&path)?)
        .replace("rounds = 100", "rounds = 12")
        .replace("join_seconds = 2.0", "join_seconds = 0.5");
    fs::write(&path, quick)?;

    for tokens in [enroll, observer] {
        let output = run(tokens).output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    tokens_are_their_owners(&here.join("try/tokens"), run(enroll))?;
    let log = fs::File::create(here.join("coordinator.log"))?;
    let mut coordinator = Running(run(coordinator).stderr(log).spawn()?);
    let mut swarm = Running(run(swarm).stderr(Stdio::null()).spawn()?);
    // As soon as the coordinator answers, its status has the policy, and later a round that was committed.
    let begun = Instant::now();
    loop {
        let output = run(status).output()?;
        let text = String::from_utf8(output.stdout)?;
        if output.status.success() && text.contains("committed") {
            assert!(text.contains("markov-capped"), "{text}");
            assert!(text.contains("20 connected of 20"), "{text}");
            break;
        }
        let log = || fs::read_to_string(here.join("coordinator.log"));
        assert!(begun.elapsed() < Duration::from_secs(120), "no round: {text}\n{}", log()?);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(coordinator.0.wait()?.success());
    assert!(swarm.0.wait()?.success());
    let output = run(audit).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success() && text.contains("12 rounds"), "{text}");

    // No secret has left its place: tokens are in their files, and nowhere else.
    let log = fs::read_to_string(here.join("coordinator.log"))?;
    let ledger = fs::read(here.join("try/state/ledger.sqlite"))?;
    let ledger = String::from_utf8_lossy(&ledger);
    let key = fs::read_to_string(here.join("try/state/seeds.key"))?;
    let mut secrets = vec![key.trim().to_string()];
    for file in ["try/tokens", "try/observer"] {
        let tokens = fs::read_to_string(here.join(file))?;
        secrets
            .extend(tokens.lines().filter_map(|token| Some(token.rsplit_once('_')?.1.to_string())));
    }
    assert_eq!(secrets.len(), 22);
    for secret in &secrets {
        assert!(!log.contains(secret) && !ledger.contains(secret));
    }
    Ok(())
}
