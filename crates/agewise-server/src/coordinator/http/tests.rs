//! The page over small ledgers, filled as the driver does, and over HTTP.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use super::cache::HistoryCache;
use super::history::{MOST_AGE_ROUNDS, MOST_ROUNDS, Snapshot, draw};
use super::{Access, MOST_CONNECTIONS, serve, status};
use crate::CoordinatorParams;
use crate::coordinator::shared::{LiveStatus, Shared};
use crate::coordinator::storage::ledger::{
    ClientRow, Ledger, NewJoin, Outcome, ReportRow, RoundEnd, RoundOutcome, RoundRow,
};
use crate::crypto::Identity;
use crate::protocol::State;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const HOSTILE: &str = "<script>alert('x')</script>\"&";

/// A ledger of a test, gone with it.
struct Scratch {
    folder: PathBuf,
    ledger: Ledger,
}

impl Scratch {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("agewise-web-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).unwrap();
        let mut ledger = Ledger::open(&folder.join("ledger.sqlite")).unwrap();
        ledger.set_fact("id", &[0xab; 16]).unwrap();
        let config = toml::to_string(&CoordinatorParams::default()).unwrap();
        ledger.note_settings(0, &config).unwrap();
        ledger.commit().unwrap();
        Self { folder, ledger }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("ledger.sqlite")
    }

    fn enrol(&mut self, names: &[&str]) {
        for (client, name) in (0..).zip(names) {
            let row = ClientRow {
                name: (*name).to_string(),
                key: Identity::from_secret([client as u8; 32]).public(),
                key_since: 0,
                samples: 10,
                waiting_since: -2,
                revoked: false,
                revoked_from: None,
                failures: 0,
                eligible_from: 0,
            };
            self.ledger.enrol(client, 0, 0, &row).unwrap();
        }
        self.ledger.commit().unwrap();
    }

    /// A round in which client 0 reports if `committed`, client 1 is missing, and one request is refused.
    fn round(&mut self, round: u64, committed: bool, forced: bool) {
        let row = RoundRow {
            settings: 0,
            seed: None,
            round,
            is_joining: true,
            interval: 4.0,
            clients: 2,
            model: round,
            began: 0,
            available: 2,
            forced,
        };
        let ledger = &mut self.ledger;
        ledger.begin_round(&row, None, [(0, 1), (1_000, 1)].into_iter()).unwrap();
        let selected = |age| NewJoin { age, outcome: Outcome::Selected, draws: 1, proof: None };
        ledger.join(round, 0, &selected(2)).unwrap();
        ledger.join(round, 1, &selected(round + 2)).unwrap();
        ledger.refuse(round, 1, "norm", "too far", 1).unwrap();
        if committed {
            let report =
                ReportRow { samples: 10, loss: 0.5, seconds: 0.1, norm: 1.0, sha256: vec![1; 32] };
            ledger.accept(round, 0, &report).unwrap();
        }
        let end = RoundEnd {
            round,
            outcome: if committed { RoundOutcome::Committed } else { RoundOutcome::Abandoned },
            seconds: 1.25,
            loss: committed.then_some(0.75),
            accuracy: committed.then_some(0.8125),
            weights: vec![],
            unreported: vec![],
            failures: vec![],
            model: None,
            note: None,
        };
        ledger.end_round(&end).unwrap();
    }

    fn drawn(&mut self) -> String {
        self.ledger.commit().unwrap();
        draw(&Snapshot::read(&self.path()).unwrap(), Some(&live(State::Joining)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn live(state: State) -> LiveStatus {
    LiveStatus {
        state,
        round: 3,
        rounds: 100,
        policy: "markov-optimal".to_string(),
        enrolled: 2,
        connected: 2,
        target: 5,
        selected: 2,
        reported: 1,
        interval: 4.0,
        without_model: 0,
        warnings: vec![],
    }
}

#[test]
fn a_run_without_rounds_says_so_instead_of_empty_axes() {
    let html = Scratch::new("empty").drawn();
    assert!(html.contains("No round is over yet"), "{html}");
    assert!(!html.contains("<svg") && !html.contains("<table"));
}

#[test]
fn rounds_give_seven_figures_and_three_tables() {
    let mut scratch = Scratch::new("rounds");
    scratch.enrol(&["one", "two"]);
    scratch.round(0, true, false);
    scratch.round(1, false, false);
    scratch.round(2, true, true);
    scratch.ledger.late(0, 1).unwrap();
    let html = scratch.drawn();
    assert_eq!(html.matches("<figure>").count(), 7);
    assert_eq!(html.matches("<table>").count(), 3);
    for text in [
        "Test accuracy",
        "Test loss",
        "Cohort size",
        "dashed: target 5",
        "dashed: target 4.00",
        "Time of a round",
        "abandoned",
        "new model, forced",
        "Late and refused",
        "Rounds between two reports",
        "Ages",
        "all 3 rounds so far",
        "81.25%",
        "Clients that wait longest",
        "Refused most often",
        "too far",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert_eq!(html, scratch.drawn(), "the same ledger gives the same bytes");
    let seen = Snapshot::read(&scratch.path()).unwrap();
    assert_eq!(seen.credited, [(2, 2)]);
    let waits = seen.waiting.iter().map(|client| (client.name.as_str(), seen.age(client)));
    assert_eq!(waits.collect::<Vec<_>>(), [("two", 5), ("one", 0)]);
}

#[test]
fn one_round_and_a_run_that_was_never_evaluated_are_drawn() {
    let mut scratch = Scratch::new("one");
    scratch.enrol(&["one", "two"]);
    scratch.round(0, false, false);
    let html = scratch.drawn();
    assert!(html.contains("the first round"));
    assert_eq!(html.matches("<figure>").count(), 7);
}

#[test]
fn names_are_text_and_nothing_else() {
    let mut scratch = Scratch::new("hostile");
    scratch.enrol(&[HOSTILE, "two"]);
    scratch.round(0, false, false);
    let html = scratch.drawn();
    let seen = Snapshot::read(&scratch.path()).unwrap();
    let mut live = live(State::Training);
    live.warnings = vec![HOSTILE.to_string()];
    live.policy = HOSTILE.to_string();
    let now = status::section(Some(&live), Some(&seen));
    for html in [html, now] {
        assert!(html.contains("&lt;script&gt;alert(") && !html.contains("<script"), "{html}");
    }
}

#[test]
fn long_runs_are_cut_and_say_so() {
    let mut scratch = Scratch::new("long");
    scratch.enrol(&["one", "two"]);
    for round in 0..u64::from(MOST_ROUNDS) + 20 {
        scratch.round(round, round % 7 != 0, round % 11 == 0);
    }
    let html = scratch.drawn();
    assert!(html.contains("the last 500 of 520 rounds"));
    assert!(html.contains("the last 120 rounds; 400 before them are left out"));
    assert!(html.len() < 400_000, "{} bytes", html.len());
    let seen = Snapshot::read(&scratch.path()).unwrap();
    assert_eq!(seen.rounds.len(), MOST_ROUNDS as usize);
    assert_eq!(seen.ages.len(), 2 * MOST_AGE_ROUNDS as usize);
    assert_eq!(seen.rounds_over(), 520);
}

#[test]
fn every_state_has_its_words() {
    let scratch = Scratch::new("words");
    let seen = Snapshot::read(&scratch.path()).unwrap();
    let words = |live: &LiveStatus| status::section(Some(live), Some(&seen));
    let at_first = LiveStatus { round: 0, connected: 7, ..live(State::Waiting) };
    assert!(words(&at_first).contains("Waiting for clients: 7 of 20"));
    assert!(words(&live(State::Waiting)).contains("Round 3 begins soon"));
    assert!(words(&live(State::Joining)).contains("Round 3, joining: 2 so far, 5 expected"));
    assert!(words(&live(State::Training)).contains("Round 3, training: 1 of 2 reported"));
    assert!(words(&live(State::Draining)).contains("Draining after round 3"));
    assert!(words(&live(State::Finished)).contains("Finished: all 100 rounds are over"));
    assert!(words(&live(State::Training)).contains(r#"data-state="training" data-round="3""#));
    assert!(status::section(None, Some(&seen)).contains("Not ready"));
    let unreadable = status::section(Some(&live(State::Training)), None);
    assert!(unreadable.contains("training") && unreadable.contains("ledger cannot be read"));
    let many = LiveStatus { warnings: vec!["w".to_string(); 12], ..live(State::Training) };
    assert_eq!(words(&many).matches("role=\"note\"").count(), 11);
}

#[test]
fn large_numbers_are_grouped() {
    assert_eq!(status::count(1234), "1234");
    assert_eq!(status::count(1_234_567), "1\u{202f}234\u{202f}567");
}

#[tokio::test]
async fn what_did_not_change_is_drawn_once() {
    let mut scratch = Scratch::new("once");
    let cache = HistoryCache::new(Arc::new(Shared::new(scratch.path())));
    let live = live(State::Joining);
    let first = cache.past(Some(&live)).await.unwrap();
    scratch.enrol(&["one", "two"]);
    let second = cache.past(Some(&live)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    // A new round is shown as soon as the drawing has been up for its shortest time.
    let live = LiveStatus { round: 4, ..live };
    let drawn = async {
        while cache.past(Some(&live)).await.unwrap().version == first.version {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), drawn).await.unwrap();
}

/// The whole answer to one request.
async fn ask(address: std::net::SocketAddr, method: &str, path: &str) -> String {
    ask_host(address, method, path, "localhost").await
}

async fn ask_host(address: std::net::SocketAddr, method: &str, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It is the answer that ends the connection.
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn start(ledger: &Path) -> (std::net::SocketAddr, Arc<Shared>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::new(Shared::new(ledger.to_path_buf()));
    shared.publish(live(State::Training));
    let access = Access::Named(vec!["fl.example.org".to_string()]);
    tokio::spawn(serve(listener, shared.clone(), access, std::future::pending()));
    (address, shared)
}

#[tokio::test]
async fn the_page_is_whole_and_strict() {
    let mut scratch = Scratch::new("http");
    scratch.enrol(&["one", "two"]);
    scratch.round(0, true, false);
    scratch.ledger.commit().unwrap();
    let (address, shared) = start(&scratch.path()).await;

    let page = ask(address, "GET", "/").await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'; script-src 'self'"));
    assert!(page.contains("<section id=\"now\"") && page.contains("<section id=\"past\""));
    assert!(page.ends_with("</html>\n"));

    let fragment = ask(address, "GET", "/live").await;
    let version = fragment.split("data-version=\"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    let known = ask(address, "GET", &format!("/live?have={version}")).await;
    assert!(known.contains("id=\"now\"") && !known.contains("id=\"past\""), "{known}");
    assert!(ask(address, "GET", "/live?have=other").await.contains("id=\"past\""));

    let json = ask(address, "GET", "/api/state.json").await;
    let (_, body) = json.split_once("\r\n\r\n").unwrap();
    let state: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(state["state"], "training");
    assert_eq!(state["live"]["target"], 5);
    assert_eq!(state["last_rounds"][0]["accuracy"], 0.8125);
    assert_eq!(state["ages"]["counts"][1]["age"], 255, "greater ages are counted together");
    assert_eq!(state["waiting_longest"][0]["name"], "two");

    for path in ["/live.css", "/live.js", "/metrics", "/healthz", "/readyz"] {
        assert!(ask(address, "GET", path).await.starts_with("HTTP/1.1 200"), "{path}");
    }
    for (method, path) in [("POST", "/"), ("DELETE", "/live"), ("PUT", "/nowhere")] {
        assert!(ask(address, method, path).await.starts_with("HTTP/1.1 405"), "{method} {path}");
    }
    assert!(ask(address, "GET", "/nowhere").await.starts_with("HTTP/1.1 404"));
    let head = ask(address, "HEAD", "/").await;
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    shared.close();
    assert!(ask(address, "GET", "/readyz").await.starts_with("HTTP/1.1 503"));
    assert!(ask(address, "GET", "/").await.contains("Not ready"));
}

#[tokio::test]
async fn a_ledger_that_cannot_be_read_is_said_and_no_path_is_told() {
    let scratch = Scratch::new("broken");
    std::fs::write(scratch.folder.join("other.sqlite"), "not a ledger at all").unwrap();
    for name in ["other.sqlite", "missing.sqlite"] {
        let (address, _) = start(&scratch.folder.join(name)).await;
        for path in ["/", "/live", "/api/state.json"] {
            let answer = ask(address, "GET", path).await;
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains("ledger cannot be read") && !answer.contains("sqlite"));
        }
    }
}

/// A page from elsewhere whose name points to this machine is the same site as ours for a browser.
#[tokio::test]
async fn a_foreign_host_is_refused_on_a_loopback_address() {
    let scratch = Scratch::new("hosts");
    let (address, _) = start(&scratch.path()).await;
    for host in ["rebound.example.com", "localhost.example.com:7071", "fl.example.org.evil", "a b"]
    {
        for path in ["/", "/live", "/metrics", "/api/state.json"] {
            let answer = ask_host(address, "GET", path, host).await;
            assert!(answer.starts_with("HTTP/1.1 4"), "{host}: {answer}");
            assert!(!answer.contains("agewise_round") && !answer.contains("<section"), "{answer}");
        }
        // Probes may call the machine what they like: there is nothing to be read.
        let health = ask_host(address, "GET", "/healthz", host).await;
        assert!(health.ends_with("ok\n") || host == "a b", "{health}");
    }
    for host in ["LOCALHOST", "localhost:7071", "127.0.0.1:7071", "[::1]:7071", "fl.example.org"] {
        let answer = ask_host(address, "GET", "/metrics", host).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
}

/// Connections that ask for the page and never read it, connections that wait after an answer, and silent ones: more than there are places.
#[tokio::test]
async fn connections_that_stay_keep_no_newcomer_out() {
    let scratch = Scratch::new("stay");
    let (address, _) = start(&scratch.path()).await;
    let mut kept = Vec::new();
    for number in 0..MOST_CONNECTIONS + 64 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request: &[u8] = match number % 3 {
            0 => b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
            1 => b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n",
            _ => b"",
        };
        stream.write_all(request).await.unwrap();
        kept.push(stream);
        if number % 64 == 63 {
            let health = ask(address, "GET", "/healthz").await;
            assert!(health.ends_with("ok\n"), "connection {number}: {health:?}");
        }
    }
    assert!(ask(address, "GET", "/metrics").await.starts_with("HTTP/1.1 200"));
}
