//! A run that was stopped and resumed is the run that was not: the same model, whatever the server and the policy remember and however updates
//! are combined.

use crate::common::site::eventually;
use crate::common::{Running, cohorts, folder, ledger, params, start_swarm, tasks};
use agewise_core::{PolicySpec, Report, SettingParams, Sizes, build_policy};
use agewise_server::CoordinatorParams;
use agewise_server::coordinator::audit::audit;
use agewise_train::aggregation::AggregationParams;
use std::fs;
use std::path::Path;
use tokio::net::TcpListener;

const ROUNDS: u64 = 6;

fn settings(state: &Path, aggregation: &str) -> CoordinatorParams {
    let mut params = params(state, "oldest-first", 12, 4);
    params.round.rounds = ROUNDS;
    params.round.drain_seconds = 60.0;
    params.model.name = "softmax".to_string();
    params.aggregation = AggregationParams { clip_norm: 0.5, ..aggregation.parse().unwrap() };
    params.updates.memory_mib = 1;
    params
}

/// The file of the last model, with what the server remembers.
fn last_model(state: &Path) -> Vec<u8> {
    fs::read(state.join(format!("models/{ROUNDS:08}.safetensors"))).unwrap()
}

/// The same run under another policy, which is stopped at once wherever it is.
fn under(policy: &str, state: &Path) -> CoordinatorParams {
    let mut params = settings(state, "mean");
    params.round.policy = policy.to_string();
    params.round.drain_seconds = 0.0;
    params
}

async fn unbroken(params: CoordinatorParams) {
    let coordinator = Running::start(params, false).await;
    let (swarm, _heard) = start_swarm(&coordinator.url, tasks(12, 0));
    coordinator.until_the_end().await;
    swarm.await.unwrap();
}

async fn stopped_and_resumed(params: CoordinatorParams) {
    stopped_and(params, |_| {}).await;
}

/// Stops the coordinator after each round, does something to its folder, and starts it again at the same address; the clients stay.
async fn stopped_and(params: CoordinatorParams, meanwhile: impl Fn(u64)) {
    let state = params.state.clone();
    let mut running = Running::start(params.clone(), false).await;
    let address = running.url.trim_start_matches("http://").to_string();
    let (swarm, _heard) = start_swarm(&running.url, tasks(12, 0));
    for round in 1..ROUNDS {
        let over = "SELECT COUNT(*) FROM rounds WHERE state = 'committed'";
        let is_over = async || {
            let rounds = ledger(&state).query_row(over, [], |row| row.get::<_, i64>(0));
            rounds.is_ok_and(|rounds| rounds >= round as i64)
        };
        eventually("a round", is_over).await;
        running.stop.take().unwrap().send(()).ok();
        running.until_the_end().await;
        meanwhile(round);
        let listener = TcpListener::bind(&address).await.unwrap();
        running = Running::start_on(listener, params.clone(), true);
    }
    running.until_the_end().await;
    swarm.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_run_goes_on_to_the_same_model() {
    let cases = [
        ("mean", "mean", 0),
        ("median", "median+momentum(learning_rate=0.8, beta=0.5)", 1),
        ("trimmed", "trimmed-mean+adam", 2),
    ];
    for (name, aggregation, moments) in cases {
        let whole = folder(&format!("whole-{name}"));
        unbroken(settings(&whole, aggregation)).await;
        let broken = folder(&format!("broken-{name}"));
        stopped_and_resumed(settings(&broken, aggregation)).await;
        assert_eq!(cohorts(&ledger(&whole)), cohorts(&ledger(&broken)), "{name}");
        let model = last_model(&whole);
        let kept = model.windows(8).filter(|bytes| bytes == b"\"server.").count();
        assert_eq!(kept, moments, "{name}");
        assert!(model == last_model(&broken), "{name}: other models");
    }
}

/// Sketches of updates survive: the cohorts that follow from them are the same. n/m is 3, so half of the clients have a sketch after two
/// rounds; up to then the policy is `oldest-first`, and from then on it is not.
#[tokio::test(flavor = "multi_thread")]
async fn sketches_are_remembered() {
    let oldest = folder("oldest");
    unbroken(under("oldest-first", &oldest)).await;
    let whole = folder("whole-herding");
    unbroken(under("age-herding", &whole)).await;
    let broken = folder("broken-herding");
    stopped_and_resumed(under("age-herding", &broken)).await;
    let [oldest, herded] = [&oldest, &whole].map(|state| cohorts(&ledger(state)));
    assert_eq!(oldest[..2], herded[..2]);
    assert_ne!(oldest, herded, "sketches made no difference");
    assert_eq!(herded, cohorts(&ledger(&broken)));
    assert!(last_model(&whole) == last_model(&broken), "other models");
    let sketches = |state: &Path| -> Vec<(u32, u64, Vec<u8>)> {
        let ledger = ledger(state);
        let mut query = ledger.prepare("SELECT * FROM sketches ORDER BY client").unwrap();
        let rows =
            query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64, row.get(2)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    };
    let kept = sketches(&whole);
    assert_eq!(kept, sketches(&broken));
    let last = |client: &u32| herded.iter().rposition(|cohort| cohort.contains(client));
    for (client, round, numbers) in &kept {
        assert_eq!((last(client), numbers.len()), (Some(*round as usize), 4 * 512));
    }
    assert_eq!(kept.len(), 12, "one for each client, and not one for each update");
}

/// A sketch that is damaged is not used, and the run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_sketch_is_left_out() {
    let state = folder("damaged-sketch");
    // Too few bytes, none at all, and as many as there should be, but no numbers.
    let damages = [vec![0; 7], Vec::new(), [0, 0, 0xc0, 0x7f].repeat(512)];
    stopped_and(under("age-herding", &state), |round| {
        let damage = &damages[round as usize % damages.len()];
        let changed = ledger(&state).execute("UPDATE sketches SET numbers = ?1", [damage]);
        assert!(changed.unwrap() > 0);
    })
    .await;
    assert!(cohorts(&ledger(&state)).iter().all(|cohort| cohort.len() == 4));
}

/// The pacer of `oort` goes on over rounds and starts: the ledger has what a policy remembers that has heard all reports of the run one after
/// the other, and an audit, which begins with nothing, comes to the same cohorts.
#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_policy_is_kept() {
    let state = folder("broken-oort");
    stopped_and_resumed(under("oort", &state)).await;
    let ledger = ledger(&state);
    let column = |query: &str| -> Vec<f64> {
        let mut query = ledger.prepare(query).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let sizes =
        Sizes::new(column("SELECT CAST(samples AS REAL) FROM clients ORDER BY client")).unwrap();
    let params = SettingParams { sizes: Some(sizes), ..SettingParams::new(12, 4, 10) };
    let setting = params.check().unwrap();
    let mut policy = build_policy(&PolicySpec::named("oort"), &setting).unwrap();
    for (round, cohort) in cohorts(&ledger).iter().enumerate() {
        let said = |what: &str| {
            column(&format!(
                "SELECT {what} FROM joins WHERE round = {round} AND outcome = 'reported' ORDER BY client"
            ))
        };
        let figures = said("loss").into_iter().zip(said("seconds")).zip(cohort);
        let reports = figures.map(|((loss, seconds), &client)| Report {
            loss: Some(loss as f32),
            duration: Some(seconds as f32),
            ..Report::plain(client)
        });
        policy.finished(&setting, &reports.collect::<Vec<_>>());
    }
    let kept: Vec<u8> = ledger
        .query_row("SELECT value FROM run WHERE key = 'policy-state'", [], |row| row.get(0))
        .unwrap();
    let expected: Vec<u8> = policy.state().iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(expected.len(), 8 * (2 + ROUNDS as usize));
    assert_eq!(kept, expected);
    assert_eq!(audit(&state, |_, _| {}).unwrap().findings, []);
}
