//! kill -9, of coordinator and clients, at any instant.

use super::ledger::{Snapshot, whole};
use super::processes::{Deployment, Process, agewise, client_name, models, until};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

const CLIENTS: usize = 6;

/// How many kills a test does: more of them with `AGEWISE_KILLS=500 cargo test -p agewise --test cli -- kills`.
fn kills(default: u32) -> u32 {
    let given = std::env::var("AGEWISE_KILLS").ok();
    given.map_or(default, |given| given.parse().unwrap())
}

/// Random numbers that are the same in every run of the test (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Checks the ledger, and that everything that clients were told is in it.
fn check(site: &Deployment, seen: &mut Snapshot) {
    // Read first: what was said by now is in the ledger from now on.
    let said: Vec<Vec<Value>> = (0..CLIENTS).map(|client| site.said(client)).collect();
    let ledger = site.ledger();
    seen.check(&ledger);
    for (client, events) in said.iter().enumerate() {
        let name = client_name(client);
        for event in events.iter().filter(|event| event["event"] == "accepted") {
            let number =
                ledger.number(&format!("SELECT client FROM clients WHERE name = '{name}'"));
            let round = event["round"].as_i64().unwrap();
            assert!(seen.credits(round, number), "{name} was told that round {round} is credited");
        }
    }
}

/// Starts clients one after the other, so that each has the number of its name.
fn clients(site: &Deployment) -> Vec<Process> {
    let mut all = Vec::new();
    for client in 0..CLIENTS {
        all.push(site.client(client, CLIENTS));
        until("a client to enrol", || {
            site.said(client).iter().any(|event| event["event"] == "enrolled")
        });
    }
    all
}

/// Long enough for kills to hit the middle of it: about a tenth of a second.
fn train_for_a_while(site: &Deployment) {
    site.change("\"softmax\"", "\"2nn\"");
    site.change("\"1 steps\"", "\"8 epochs\"");
}

/// Kills coordinator and clients at random, and checks after each kill that nothing of what was there is lost, this neither;
/// then lets the run come to its end in peace.
fn kill_at_random(
    site: &Deployment,
    mut coordinator: Process,
    clients: &mut [Process],
    kills: u32,
    is_kept: impl Fn() -> bool,
) {
    let mut seen = Snapshot::default();
    let mut dice = Dice(6);
    let mut progress = 0;
    for kill in 0..kills {
        // Mostly soon, to hit starts and rounds under way; now and then only after a round was committed.
        if dice.below(8) == 0 {
            site.until_over(progress as i64 + 1);
        } else {
            std::thread::sleep(Duration::from_millis(10 + dice.below(250)));
        }
        let victim = dice.below(2 * CLIENTS as u64) as usize;
        if let Some(client) = clients.get_mut(victim) {
            let gave_up = client.ended();
            assert!(
                gave_up.is_none(),
                "kill {kill}: client {victim} had ended by itself: {gave_up:?}"
            );
            client.kill();
            *client = site.client(victim, CLIENTS);
        } else {
            let gave_up = coordinator.ended();
            assert!(
                gave_up.is_none(),
                "kill {kill}: the coordinator had ended by itself: {}",
                site.log()
            );
            coordinator.kill();
            if site.state().join("ledger.sqlite").exists() {
                check(site, &mut seen);
            }
            coordinator = site.coordinator();
        }
        let before = progress;
        check(site, &mut seen);
        assert!(is_kept(), "kill {kill}");
        progress = seen.sizes().0;
        assert!(progress >= before);
    }
    let (rounds, credits) = seen.sizes();
    // About one kill in eight comes after a round, so there were some, however slow the machine is.
    assert!(rounds >= 5 && credits >= 5, "{rounds} rounds and {credits} credits in all");

    // From here on in peace: to the end of its rounds, and everyone hears that it is over.
    coordinator.kill();
    site.change("rounds = 0", &format!("rounds = {}", rounds + 5));
    let mut coordinator = site.coordinator();
    assert_eq!(coordinator.code("the end of the run"), Some(0), "{}", site.log());
    check(site, &mut seen);
    assert!(seen.sizes().0 >= rounds + 5);
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.code("the end of a client"), Some(0), "client {number}");
    }
    // Everyone who was in a round had a draw that wins, or was invited, and waited after its failures as the ledger has it.
    let audited = agewise().arg("audit").arg(site.state()).output().unwrap();
    let text = String::from_utf8_lossy(&audited.stdout);
    assert!(audited.status.success(), "{text}");
    println!("{kills} kills: {} rounds, {} credits", seen.sizes().0, seen.sizes().1);
}

#[test]
fn two_hundred_kills_lose_no_round_and_no_credit() {
    let endless = format!(
        "policy = \"markov-optimal\"\nclients = {CLIENTS}\ncohort = 2\nrounds = 0\njoin_seconds = 0.2\nreport_seconds = 5.0"
    );
    let site = Deployment::new("kills", &endless);
    train_for_a_while(&site);
    let coordinator = site.coordinator();
    let mut clients = clients(&site);
    kill_at_random(&site, coordinator, &mut clients, kills(200), || true);
}

/// One of the clients that the coordinator invites is stopped, and fails until it has to wait: its rounds end long before `report_seconds`,
/// as the coordinator knows by then how long reports take. Its failures in a row and its wait survive every kill, and an audit finds them
/// as they have to be. What is known of durations is lost with a kill, so rounds that go on after one wait as they did at first. Fewer kills than above, as a coordinator that was
/// started again waits ten seconds for the client before its next round.
#[test]
fn kills_lose_no_failure() {
    let endless = format!(
        "policy = \"oldest-first\"\nclients = {CLIENTS}\ncohort = 2\nrounds = 0\njoin_seconds = 0.2\nreport_seconds = 120.0
suspend_after = 0"
    );
    let site = Deployment::new("kills-failures", &endless);
    train_for_a_while(&site);
    let coordinator = site.coordinator();
    let mut clients = clients(&site);
    // Twenty reports, from which on one of two is enough to stop waiting for the other.
    site.until_over(12);
    let stopped = clients.pop().unwrap();
    let stop = Command::new("kill").args(["-STOP", &stopped.id().to_string()]).status();
    assert!(stop.unwrap().success());
    let last = CLIENTS - 1;
    let known = || {
        let columns = format!("SELECT failures, eligible_from FROM clients WHERE client = {last}");
        let rows = site.ledger().table(&columns);
        [0, 1].map(|column| whole(&rows[0][column]))
    };
    until("failures in a row", || known()[0] >= 4);
    let before = known();
    // It is not there any more after the first kill of the coordinator; until then it may fail once more.
    let is_kept = || known()[0] >= before[0] && known()[1] >= before[1];
    kill_at_random(&site, coordinator, &mut clients, kills(24), is_kept);
}

/// Where the coordinator chooses and everyone is there, nothing depends on time: a run that was killed again and again makes the same
/// models as one that was not.
#[test]
fn a_run_that_was_killed_makes_the_same_model() {
    const ROUNDS: u32 = 16;
    let round = format!(
        "policy = \"oldest-first\"\nclients = {CLIENTS}\ncohort = 3\nrounds = {ROUNDS}\njoin_seconds = 60.0
report_seconds = 120.0\nreport_deadline = \"fixed\"\npause_seconds = 0.05"
    );
    let play = |name: &str, kills: u64| {
        let site = Deployment::new(name, &round);
        train_for_a_while(&site);
        // The same seeds in both.
        fs::create_dir_all(site.state()).unwrap();
        fs::write(site.state().join("seeds.key"), "5a".repeat(32)).unwrap();
        let mut coordinator = site.coordinator();
        let mut clients = clients(&site);
        let mut dice = Dice(kills);
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(20 + dice.below(500)));
            // The last moments of a run: there may be nothing left to kill.
            if coordinator.ended().is_some() {
                break;
            }
            coordinator.kill();
            coordinator = site.coordinator();
        }
        assert_eq!(coordinator.code("the end of the run"), Some(0), "{}", site.log());
        for client in &mut clients {
            assert_eq!(client.code("the end of a client"), Some(0));
        }
        let newest = models(&site.state()).pop().unwrap();
        let name = newest.file_name().unwrap().to_owned();
        (site.ledger().cohorts(), name, fs::read(newest).unwrap())
    };
    let unbroken = play("unbroken", 0);
    let broken = play("broken", 15);
    assert_eq!(unbroken.0, broken.0, "cohorts, ages and updates");
    assert_eq!(unbroken.1, broken.1);
    assert!(unbroken.2 == broken.2, "the bytes of the last model");
}

/// A run that was killed before it had really begun begins with the next start.
#[test]
fn killed_in_its_first_moments_it_begins_all_the_same() {
    let round = "policy = \"oldest-first\"\nclients = 2\ncohort = 1\nrounds = 1";
    for delay in (0..200).step_by(10) {
        let site = Deployment::new("first-moments", round);
        let mut coordinator = site.coordinator();
        std::thread::sleep(Duration::from_millis(delay));
        coordinator.kill();
        let mut coordinator = site.coordinator();
        until("an answer", || {
            let ended = coordinator.ended();
            assert!(ended.is_none(), "killed after {delay} ms: {}", site.log());
            site.status().is_some()
        });
        Snapshot::default().check(&site.ledger());
    }
}
