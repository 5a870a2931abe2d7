//! A disk that is full, and files that were damaged.

use super::ledger::Snapshot;
use super::processes::{Deployment, Process, models, until};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ROUND: &str =
    "policy = \"markov-optimal\"\nclients = 6\ncohort = 3\nrounds = 0\njoin_seconds = 0.2
report_seconds = 10.0\ndrain_seconds = 2.0";

/// A limit on the size of files stands for a disk that is full: every file that has to grow beyond it fails to.
#[cfg(target_os = "linux")]
fn limit_files(process: &Process, bytes: &str) {
    let pid = process.id().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status();
    assert!(done.unwrap().success(), "prlimit");
}

/// The system would end a process that writes beyond the limit.
const SPARED: &str = "trap '' XFSZ;";

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_halts_the_run_until_there_is_room_again() {
    let site = Deployment::new("full", ROUND);
    let mut coordinator = site.coordinator_under(SPARED);
    let mut swarm = site.swarm(6);
    let mut seen = Snapshot::default();
    site.until_over(3);
    limit_files(&coordinator, "1024");
    until("the log to say so", || site.log().contains("failed, retrying"));
    seen.check(&site.ledger());
    let (rounds, _) = seen.sizes();
    std::thread::sleep(Duration::from_secs(4));
    assert!(coordinator.ended().is_none(), "it waits for room: {}", site.log());
    assert!(swarm.ended().is_none(), "clients wait as well");
    seen.check(&site.ledger());
    assert_eq!(seen.sizes().0, rounds, "no round ends without being written");

    limit_files(&coordinator, "unlimited");
    site.until_over(rounds as i64 + 3);
    seen.check(&site.ledger());
    site.stop(coordinator);
    seen.check(&site.ledger());
}

#[cfg(target_os = "linux")]
#[test]
fn a_coordinator_that_is_stopped_with_a_full_disk_goes_on_later() {
    let site = Deployment::new("full-stop", ROUND);
    let mut coordinator = site.coordinator_under(SPARED);
    let _swarm = site.swarm(6);
    let mut seen = Snapshot::default();
    site.until_over(3);
    limit_files(&coordinator, "1024");
    until("the log to say so", || site.log().contains("failed, retrying"));
    seen.check(&site.ledger());
    // Nothing can be finished: the round is handed back.
    coordinator.terminate();
    assert_eq!(coordinator.code("the coordinator to stop"), Some(0), "{}", site.log());
    seen.check(&site.ledger());

    let coordinator = site.coordinator();
    site.until_over(seen.sizes().0 as i64 + 3);
    seen.check(&site.ledger());
    site.stop(coordinator);
}

/// The log lies on the disk that is full, as it does when standard error goes to a file.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_with_the_log_on_it_ends_nothing() {
    let site = Deployment::new("full-log", ROUND);
    let log = site.here.join("own.log");
    let mut coordinator = site.coordinator_under(&format!("{SPARED} exec 2> '{}';", log.display()));
    let _swarm = site.swarm(6);
    site.until_over(3);
    limit_files(&coordinator, "1024");
    std::thread::sleep(Duration::from_secs(3));
    let ended = coordinator.ended();
    assert!(ended.is_none(), "{ended:?}, with nothing to be read anywhere");
    limit_files(&coordinator, "unlimited");
    let over = site.ledger().rounds_over();
    site.until_over(over + 2);
    Snapshot::default().check(&site.ledger());
    site.stop(coordinator);
}

/// There is no room from the beginning: it says which file, and leaves nothing behind that would be in the way later.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_from_the_beginning() {
    let site = Deployment::new("full-start", ROUND);
    let mut coordinator = site.coordinator_under(&format!("{SPARED} ulimit -f 1;"));
    assert_eq!(coordinator.code("the coordinator to give up"), Some(1), "{}", site.log());
    let log = site.log();
    let last = log.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && !log.contains("panicked"), "{log}");
    let coordinator = site.coordinator();
    let _swarm = site.swarm(6);
    site.until_over(2);
    Snapshot::default().check(&site.ledger());
    site.stop(coordinator);
}

/// Plays some rounds and stops between them or in one.
fn played(name: &str) -> (Deployment, Snapshot) {
    let site = Deployment::new(name, ROUND);
    let coordinator = site.coordinator();
    let _swarm = site.swarm(6);
    site.until_over(5);
    site.stop(coordinator);
    let mut seen = Snapshot::default();
    seen.check(&site.ledger());
    (site, seen)
}

fn flip_a_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    // Behind the header, in the numbers: the file stays readable.
    let place = bytes.len() - 40;
    bytes[place] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_model_is_replaced_by_the_one_before_and_it_says_so() {
    let (site, seen) = played("damaged");
    let kept = models(&site.state());
    assert_eq!(kept.len(), 3);
    flip_a_byte(&kept[2]);
    let coordinator = site.coordinator();
    let mut status = None;
    until("a status", || {
        status = site.status();
        status.is_some()
    });
    let warnings = status.unwrap()["warnings"].to_string();
    let version = |at: usize| {
        let name = kept[at].file_stem().unwrap().to_str().unwrap();
        name.parse::<u64>().unwrap()
    };
    let [newest, before] = [version(2), version(1)];
    assert!(warnings.contains(&format!("model {newest} is damaged")), "{warnings}");
    assert!(warnings.contains(&format!("model {before} is used")), "{warnings}");
    let log = site.log();
    let said =
        |line: &str| line.contains("WARN") && line.contains(&format!("model {newest} is damaged"));
    assert!(log.lines().any(said), "{log}");
    // It goes on: with rounds, and with whole models.
    let _swarm = site.swarm(6);
    let over = seen.sizes().0 as i64;
    site.until_over(over + 2);
    let ledger = site.ledger();
    let trained = ledger.number(&format!("SELECT MIN(model) FROM rounds WHERE round >= {over}"));
    assert_eq!(trained, before as i64);
    site.stop(coordinator);
    let mut seen = seen;
    seen.check(&site.ledger());
}

#[test]
fn without_a_whole_model_it_names_them_and_touches_nothing() {
    let (site, _) = played("all-damaged");
    let kept = models(&site.state());
    flip_a_byte(&kept[0]);
    let half = fs::read(&kept[1]).unwrap();
    fs::write(&kept[1], &half[..half.len() / 2]).unwrap();
    fs::remove_file(&kept[2]).unwrap();
    let before = crate::common::files(&site.state().join("models")).unwrap();
    let facts = site.ledger().table("SELECT * FROM models ORDER BY version");
    // Twice: the first try has not spoilt the second.
    for _ in 0..2 {
        let output = site.failing_coordinator();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        for path in &kept {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(message.contains(name), "{name} in {message}");
        }
        assert!(crate::common::files(&site.state().join("models")).unwrap() == before);
        assert_eq!(site.ledger().table("SELECT * FROM models ORDER BY version"), facts);
    }
}
