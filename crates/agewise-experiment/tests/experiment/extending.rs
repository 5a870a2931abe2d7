//! More seeds, rounds or policies of a run: what is missing is played and nothing else, and the bytes are those of a run
//! that had asked for all at once.

use crate::training::worlds::{Dir, experiment, field, small, trained};
use agewise_experiment::run_dir::extend;
use agewise_experiment::{
    Callbacks, ClockParams, Experiment, ExperimentParams, RoundLog, RunDir, RunId,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts the rounds that are played.
#[derive(Default)]
struct Counter(AtomicU64);

impl Callbacks for Counter {
    fn on_rounds(&self, _: RunId, rounds: u64, _: &[RoundLog]) {
        self.0.fetch_add(rounds, Ordering::SeqCst);
    }
}

fn of(params: &ExperimentParams) -> Experiment {
    match params.training {
        Some(_) => experiment(params.clone()),
        None => Experiment::new(params.clone(), &[]).unwrap(),
    }
}

/// Plays in a directory, writes the tables, and returns the rounds that were played.
fn play(dir: &Dir, experiment: &Experiment) -> u64 {
    let (counter, stop) = (Counter::default(), AtomicBool::new(false));
    let results = agewise_experiment::play(experiment, Some(&dir.dir), 2, &counter, &stop).unwrap();
    assert!(results.is_finished());
    results.write_tables(&dir.dir, &results.summary().unwrap()).unwrap();
    counter.0.into_inner()
}

/// Extends a run, finished or stopped after some rounds, and compares it with one that had asked for all at once. Returns
/// the rounds that were played when it was extended.
fn extended(before: &ExperimentParams, after: &ExperimentParams, stopped: Option<usize>) -> u64 {
    let at_once = Dir::new(&of(after));
    play(&at_once, &of(after));
    let dir = Dir::new(&of(before));
    match stopped {
        None => {
            play(&dir, &of(before));
        }
        Some(rounds) => {
            dir.play_until(&of(before), 2, rounds);
        }
    }
    extend(&dir.dir, of(after).params()).unwrap();
    let played = play(&dir, &of(after));
    let (files, expected) = (dir.files(), at_once.files());
    assert!(files.keys().eq(expected.keys()), "{:?}", files.keys());
    for (name, bytes) in files {
        assert!(bytes == expected[&name], "{name} differs");
    }
    played
}

/// The steps of the server in so many rounds: where a step takes K updates, a round is as many updates as a cohort has clients.
fn steps(params: &ExperimentParams, policy: &str, rounds: u64) -> u64 {
    let taken = match policy.split_once('/') {
        Some((_, "async")) => 1,
        Some((_, schedule)) if schedule.starts_with("buffered:") => {
            schedule["buffered:".len()..].parse().unwrap()
        }
        _ => params.cohort,
    };
    (rounds * params.cohort).div_ceil(taken)
}

fn more(params: &ExperimentParams) -> [(ExperimentParams, u64); 4] {
    let mut policies = params.policies.clone();
    policies.push("markov-optimal".to_string());
    let rounds = params.rounds;
    let of_all = |rounds: u64| -> u64 {
        params.policies.iter().map(|policy| steps(params, policy, rounds)).sum()
    };
    // Two seeds; runs without a task are played again as a whole.
    let from = if params.training.is_some() { of_all(rounds) } else { 0 };
    let longer = 2 * (of_all(rounds + 4) - from);
    [
        (ExperimentParams { seeds: 3, ..params.clone() }, of_all(rounds)),
        (ExperimentParams { policies: policies.clone(), ..params.clone() }, 2 * rounds),
        (ExperimentParams { rounds: rounds + 4, ..params.clone() }, longer),
        (
            ExperimentParams { seeds: 3, rounds: rounds + 4, policies, ..params.clone() },
            longer + of_all(rounds + 4) + 3 * (rounds + 4),
        ),
    ]
}

#[test]
fn what_is_missing_is_played_and_nothing_else() {
    let sparse = trained(small(&["random", "phased(reshuffle=0.3)"]), |training| {
        // The seventh round is evaluated because it is the last, and the tenth because it is due.
        (training.eval_every, training.eval_from) = (3, 4);
    });
    let skew = trained(sparse.clone(), |training| training.skew = true);
    let probing = ExperimentParams {
        policies: ["age-herding", "oort"].map(str::to_string).to_vec(),
        baseline: None,
        ..field()
    };
    let without = ExperimentParams { training: None, rounds: 50, ..small(&["random", "phased"]) };
    for before in [sparse, skew, probing, without] {
        for (after, rounds) in more(&before) {
            assert_eq!(extended(&before, &after, None), rounds, "{after:?}");
        }
    }
}

#[test]
fn a_run_that_was_stopped_can_be_asked_for_more_too() {
    let trains = small(&["random", "oldest-first"]);
    let without = ExperimentParams { training: None, rounds: 50, ..trains.clone() };
    for before in [trains, without] {
        for (after, _) in more(&before) {
            for rounds in [0, 3, 17] {
                extended(&before, &after, Some(rounds));
            }
        }
    }
}

/// Clients that differ in speed and in their links, drop out, go offline and leave, and some that never report.
fn timed(policies: &[&str]) -> ExperimentParams {
    let mut params = trained(small(policies), |training| training.speeds = "lognormal:1".into());
    params.clock =
        Some(ClockParams { links: "lognormal:0.5@0.05,0.02".into(), ..ClockParams::default() });
    params.world.availability = "on-off:8,1".to_string();
    (params.world.dropout, params.world.failing) = (0.1, Some(0.1));
    params.world.leave = 0.01;
    params
}

/// Rounds that end by a clock; and none, so that clients are at work when a run ends, with the models that they were sent.
#[test]
fn runs_with_a_clock_can_be_asked_for_more() {
    let rounds = timed(&["oldest-first/deadline:0.6", "random/over-select:1.5", "oort"]);
    let no_rounds = timed(&["random/buffered:3", "age-herding/async", "oort/buffered:2"]);
    for before in [rounds, no_rounds] {
        for (after, rounds) in more(&before) {
            assert_eq!(extended(&before, &after, None), rounds, "{after:?}");
            extended(&before, &after, Some(9));
        }
    }
}

/// Without checkpoints the queue of clients at work is made again from the beginning.
#[test]
fn checkpoints_of_clients_at_work_may_be_removed() {
    let before = timed(&["random/buffered:3", "age-herding/async"]);
    let after = ExperimentParams { rounds: before.rounds + 4, ..before.clone() };
    let (dir, at_once) = (Dir::new(&of(&before)), Dir::new(&of(&after)));
    play(&dir, &of(&before));
    play(&at_once, &of(&after));
    dir.dir.remove("checkpoints").unwrap();
    extend(&dir.dir, of(&after).params()).unwrap();
    let each = before.policies.iter().map(|policy| steps(&before, policy, after.rounds));
    assert_eq!(play(&dir, &of(&after)), 2 * each.sum::<u64>());
    assert_eq!(dir.files(), at_once.files());
}

/// A run that reached its target in an evaluation that only its end had asked for goes on, as it would have at once.
#[test]
fn targets_end_runs_as_if_all_had_been_asked_at_once() {
    for rounds in 4..9 {
        let stops = trained(ExperimentParams { rounds, ..small(&["random"]) }, |training| {
            (training.eval_every, training.eval_from) = (4, 4);
            (training.targets, training.stop_at_target) = (vec![0.4], true);
        });
        extended(&stops, &ExperimentParams { rounds: 12, ..stops.clone() }, None);
    }
}

/// Without its checkpoints a run is played again from the beginning, with the same bytes.
#[test]
fn checkpoints_may_be_removed() {
    let before = small(&["random", "oldest-first"]);
    let after = ExperimentParams { rounds: 9, ..before.clone() };
    let (dir, at_once) = (Dir::new(&of(&before)), Dir::new(&of(&after)));
    play(&dir, &of(&before));
    play(&at_once, &of(&after));
    dir.dir.remove("checkpoints").unwrap();
    extend(&dir.dir, of(&after).params()).unwrap();
    assert_eq!(play(&dir, &of(&after)), 4 * 9);
    assert_eq!(dir.files(), at_once.files());
}

/// Killed in its last step, an extended run still has the model from before, and the checkpoint that is in turn to go;
/// killed a moment earlier, it also lacks its last checkpoint.
#[test]
fn a_model_from_before_is_not_taken_for_the_last_one() {
    let before = small(&["random", "oldest-first"]);
    let after = ExperimentParams { rounds: before.rounds + 1, ..before.clone() };
    let (dir, at_once) = (Dir::new(&of(&before)), Dir::new(&of(&after)));
    play(&dir, &of(&before));
    play(&at_once, &of(&after));
    let is_state = |name: &str| name.starts_with("models/") || name.starts_with("checkpoints/");
    let mut stale = dir.files();
    stale.retain(|name, _| is_state(name));
    extend(&dir.dir, of(&after).params()).unwrap();
    for (lost, rounds) in [(false, 0), (true, 4)] {
        play(&dir, &of(&after));
        if lost {
            dir.dir.remove("checkpoints").unwrap();
        }
        for (name, bytes) in &stale {
            dir.dir.write(name, bytes).unwrap();
        }
        assert_ne!(dir.files(), at_once.files());
        assert_eq!(play(&dir, &of(&after)), rounds);
        assert_eq!(dir.files(), at_once.files());
    }
}

/// The lock keeps others away while the configuration is replaced, and is no reason to refuse a folder.
#[test]
fn the_lock_outlives_the_configuration() {
    let params = small(&["random"]);
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("lock"), b"").unwrap();
    let begin = |force| RunDir::begin(Some(folder.path()), "test", force, of(&params).params());
    let (dir, lock) = begin(false).unwrap();
    extend(&dir, of(&params).params()).unwrap();
    for refused in [dir.lock().is_err(), begin(true).is_err(), begin(false).is_err()] {
        assert!(refused);
    }
    drop(lock);
    dir.lock().unwrap();
    assert_eq!(dir.read_bytes("lock").unwrap().as_deref(), Some(&b""[..]));
    begin(true).unwrap();
}

/// Until an extended run is finished, nothing in its folder looks as if it were.
#[test]
fn what_follows_from_the_logs_goes_when_a_run_is_extended() {
    let before = small(&["random", "oldest-first"]);
    let dir = Dir::new(&of(&before));
    play(&dir, &of(&before));
    for name in ["report.html", "figures/cohorts.svg"] {
        dir.dir.write(name, b"").unwrap();
    }
    let after = ExperimentParams { rounds: 9, ..before };
    extend(&dir.dir, of(&after).params()).unwrap();
    let stays = |name: &String| {
        let parts = ["config.toml", "lock", "log/", "checkpoints/", "models/"];
        parts.iter().any(|part| name.starts_with(part))
    };
    assert!(dir.files().keys().all(stays), "{:?}", dir.files().keys());
}

/// Where clients join, more rounds mean more clients to share the data: everything is played again.
#[test]
fn where_clients_join_more_rounds_are_another_run() {
    let mut before = small(&["random", "oldest-first"]);
    before.world.join = 0.1;
    let after = ExperimentParams { rounds: 9, ..before.clone() };
    assert_eq!(extended(&before, &after, None), 4 * 9);
    let seeds = ExperimentParams { seeds: 3, ..before.clone() };
    assert_eq!(extended(&before, &seeds, None), 2 * 7);
}

#[test]
fn nothing_but_more_can_be_asked_for() {
    let before = small(&["random", "oldest-first"]);
    let dir = Dir::new(&of(&before));
    play(&dir, &of(&before));
    let files = dir.files();
    let wrong: [(&str, ExperimentParams); 6] = [
        ("rounds", ExperimentParams { rounds: 6, ..before.clone() }),
        ("seeds", ExperimentParams { seeds: 1, ..before.clone() }),
        ("policies", small(&["random", "phased"])),
        ("policies", small(&["random"])),
        ("seed = 6: expected 5, as", ExperimentParams { seed: 6, ..before.clone() }),
        (
            "training.batch = 6: expected 5, as in the run",
            trained(before.clone(), |training| training.batch = 6),
        ),
    ];
    for (words, params) in wrong {
        let error = extend(&dir.dir, &params).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
    extend(&dir.dir, of(&before).params()).unwrap();
    assert_eq!(play(&dir, &of(&before)), 0);
    assert_eq!(dir.files(), files);
}

/// A configuration that was changed by hand to ask for less, and one whose rounds decide how many clients share the data:
/// both are refused, and nothing is lost.
#[test]
fn what_was_played_is_not_forgotten_by_an_edit() {
    let trains = small(&["random", "oldest-first"]);
    let selects = ExperimentParams { training: None, ..trains.clone() };
    let mut joining = trains.clone();
    joining.world.join = 0.1;
    let mut cases = Vec::new();
    for before in [trains, selects] {
        let fewer = ExperimentParams { rounds: 6, ..before.clone() };
        cases.push((before.clone(), fewer, "rounds = 6: expected at least 7"));
        let fewer = ExperimentParams { seeds: 1, ..before.clone() };
        cases.push((before.clone(), fewer, "seeds = 1: expected at least 2"));
        let fewer = ExperimentParams { policies: vec!["random".to_string()], ..before.clone() };
        cases.push((before, fewer, "policies = 1: expected at least 2"));
    }
    for rounds in [6, 8] {
        let edited = ExperimentParams { rounds, ..joining.clone() };
        cases.push((joining.clone(), edited, "another configuration"));
    }
    for (before, edited, words) in cases {
        let dir = Dir::new(&of(&before));
        play(&dir, &of(&before));
        let files = dir.files();
        let (edited, stop) = (of(&edited), AtomicBool::new(false));
        let resumed =
            agewise_experiment::play(&edited, Some(&dir.dir), 1, &Counter::default(), &stop);
        let read = agewise_experiment::read(&edited, &dir.dir);
        for refused in [resumed.err(), read.err()] {
            let error = refused.unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(dir.files(), files);
    }
}
