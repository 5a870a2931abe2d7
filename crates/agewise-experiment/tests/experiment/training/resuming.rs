//! Any number of threads, and any number of interruptions: the same bytes.

use super::worlds::{
    Dir, PARAMETERS, bits, checkpoint, experiment, field, logs, play, play_in_memory, run, small,
    trained,
};
use agewise_experiment::{
    Experiment, ExperimentError, ExperimentParams, NoCallbacks, Record, RunId, TrainingRun,
};
use agewise_train::Threads;
use agewise_train::checkpoint::Checkpoint;
use std::sync::atomic::AtomicBool;

const WITH_STATE: [&str; 4] =
    ["oldest-first", "phased(reshuffle=0.5)", "markov-optimal@cold", "random"];

/// Rules of aggregation: with a memory, and without.
const RULES: [&str; 7] = [
    "mean",
    "momentum(learning_rate=0.8, beta=0.9)",
    "adam(learning_rate=0.02)",
    "median",
    "trimmed-mean(trim=0.25)+momentum",
    "mean(clip_norm=0.1)",
    "mean(max_norm=auto)+momentum",
];

fn with_rule(rule: &str, params: ExperimentParams) -> ExperimentParams {
    ExperimentParams { aggregation: rule.parse().unwrap(), ..params }
}

/// Softmax with weight decay, as Theorem 1 asks, with looks at all clients in every other round.
fn with_bound() -> ExperimentParams {
    trained(small(&WITH_STATE), |training| {
        (training.weight_decay, training.bound, training.eval_every) = (0.05, true, 2);
    })
}

/// Clients that come and go while they train.
fn restless(params: ExperimentParams) -> ExperimentParams {
    let mut params = ExperimentParams { calibrate: Some(true), ..params };
    params.world.availability = "on-off:3,1".to_string();
    (params.world.dropout, params.world.join, params.world.leave) = (0.2, 0.1, 0.02);
    params
}

/// Everything that a record says; numbers are printed with all their digits.
fn text(records: &[Record]) -> String {
    format!("{records:#?}")
}

#[test]
fn threads_leave_no_trace() {
    let few = small(&["oldest-first", "random", "phased"]);
    for params in [few, with_bound(), field(), restless(field()), restless(small(&WITH_STATE))] {
        let experiment = experiment(ExperimentParams { rounds: 5, ..params });
        let (records, models) = play(&experiment, 1);
        assert_eq!(text(&play_in_memory(&experiment, 2)), text(&records));
        // More threads than runs, and none at all, too.
        for threads in [2, 3, 7, 20, 0] {
            let (others, other_models) = play(&experiment, threads);
            assert_eq!(text(&others), text(&records), "{threads} threads");
            assert_eq!(other_models, models, "{threads} threads");
        }
    }
}

/// Plays a run to its end, and keeps what is needed to go on from each of its rounds.
pub(crate) fn unbroken(experiment: &Experiment, id: RunId) -> (TrainingRun<'_>, Vec<Checkpoint>) {
    let mut run = TrainingRun::new(experiment, id).unwrap();
    let mut kept = vec![checkpoint(&run)];
    while !run.is_finished() {
        run.play_round(Threads::ONE).unwrap();
        kept.push(checkpoint(&run));
    }
    (run, kept)
}

#[test]
fn every_round_is_a_place_to_go_on_from() {
    let skew = trained(ExperimentParams { rounds: 4, ..small(&WITH_STATE) }, |t| t.skew = true);
    let ends_early = trained(small(&WITH_STATE), |training| {
        (training.targets, training.stop_at_target) = (vec![0.5], true);
    });
    let others = [with_bound(), skew, ends_early, field(), restless(field())];
    let rules = RULES.map(|rule| with_rule(rule, small(&WITH_STATE[..2])));
    for params in rules.into_iter().chain(others) {
        let whole_experiment = experiment(ExperimentParams { seeds: 1, ..params });
        for id in whole_experiment.runs() {
            let (whole, kept) = unbroken(&whole_experiment, id);
            for (round, kept) in kept.into_iter().enumerate() {
                // Logs beyond the checkpoint are not used, so both lists give the same.
                for logs in [&whole.logs()[..round], whole.logs()] {
                    let fresh = experiment(whole_experiment.params().clone());
                    let mut run =
                        TrainingRun::resume(&fresh, id, logs.to_vec(), kept.clone()).unwrap();
                    assert_eq!(run.logs(), &whole.logs()[..round]);
                    while !run.is_finished() {
                        run.play_round(Threads::new(2).unwrap()).unwrap();
                    }
                    assert_eq!(run.logs(), whole.logs(), "{id:?} from round {round}");
                    assert_eq!(bits(run.global()), bits(whole.global()));
                    assert_eq!(run.server_state(), whole.server_state());
                    assert_eq!(run.sketches(), whole.sketches());
                }
            }
        }
    }
}

#[test]
fn stopped_again_and_again_it_ends_the_same() {
    let rules = [RULES[0], RULES[1], RULES[4]].map(|rule| with_rule(rule, small(&WITH_STATE)));
    let probing = ["age-herding", "oort", "power-of-choice", "divfl"];
    let probing = ExperimentParams {
        policies: probing.map(str::to_string).to_vec(),
        baseline: None,
        ..field()
    };
    let cases = rules.into_iter().chain([probing.clone(), restless(probing)]);
    for (params, threads) in cases.zip([1, 3, 3, 2, 2]) {
        let experiment = experiment(ExperimentParams { rounds: 6, ..params });
        let at_once = Dir::new(&experiment);
        let whole = at_once.play(&experiment, 2);
        let dir = Dir::new(&experiment);
        let mut stops = 0;
        // The longer it takes, the longer it may go on, so that it ends.
        let records = loop {
            let pause = [1, 5, 2, 9, 3][stops % 5] + stops / 2;
            let records = dir.play_until(&experiment, threads, pause);
            assert_eq!(records.len(), 8);
            for (record, whole) in records.iter().zip(&whole) {
                assert_eq!(record.id, whole.id);
                let logs = logs(record);
                assert_eq!(logs, &super::worlds::logs(whole)[..logs.len()]);
                assert_eq!(record.finished, logs.len() == 6);
            }
            if records.iter().all(|record| record.finished) {
                break records;
            }
            stops += 1;
        };
        assert!(stops > 4, "{stops} stops");
        assert_eq!(text(&records), text(&whole));
        assert_eq!(dir.files(), at_once.files());
        let read = agewise_experiment::read(&experiment, &dir.dir).unwrap();
        assert_eq!(text(&read.records), text(&whole));
    }
}

#[test]
fn a_file_that_fails_ends_the_experiment_and_nothing_is_lost() {
    let experiment = experiment(small(&WITH_STATE));
    let (whole, _) = play(&experiment, 1);
    for threads in [1, 3] {
        let dir = Dir::new(&experiment);
        let in_the_way = dir.temporary.path().join("log/001-00001.jsonl");
        std::fs::create_dir_all(&in_the_way).unwrap();
        let stop = AtomicBool::new(false);
        let played =
            agewise_experiment::play(&experiment, Some(&dir.dir), threads, &NoCallbacks, &stop);
        assert!(matches!(played.err(), Some(ExperimentError::RunDir(_))));
        std::fs::remove_dir(&in_the_way).unwrap();
        assert_eq!(text(&dir.play(&experiment, threads)), text(&whole));
    }
}

#[test]
fn what_does_not_fit_is_not_gone_on_with() {
    let experiment =
        experiment(ExperimentParams { seeds: 1, ..small(&["oldest-first", "random"]) });
    let id = run(0, 0);
    let (whole, kept) = unbroken(&experiment, id);
    let logs = whole.logs().to_vec();
    let field = |logs: &[_], checkpoint: Checkpoint| {
        let resumed = TrainingRun::resume(&experiment, id, logs.to_vec(), checkpoint);
        resumed.err().map(|error| error.field().to_string())
    };
    assert_eq!(field(&logs[..2], kept[3].clone()).as_deref(), Some("log"));
    let short = Checkpoint { parameters: vec![0.0; PARAMETERS - 1], ..kept[3].clone() };
    assert_eq!(field(&logs, short).as_deref(), Some("checkpoint"));
    let server = vec![("direction".to_string(), vec![0.0; 3])];
    let of_another_rule = Checkpoint { server, ..kept[3].clone() };
    assert!(field(&logs, of_another_rule).is_some());
    let mut wrong: Vec<_> = (0..5).map(|_| logs.clone()).collect();
    wrong[0][1].round = 7;
    wrong[1][1].losses.pop();
    wrong[2][1].clients[0] = 12;
    wrong[3].remove(1);
    wrong[4][1].available = 11;
    for (case, logs) in wrong.iter().enumerate() {
        assert_eq!(field(logs, kept[3].clone()).as_deref(), Some("log"), "case {case}");
        assert!(Record::of_training(&experiment, id, logs.clone()).is_err(), "case {case}");
    }
    let mut twice = logs.clone();
    twice[1].clients[1] = twice[1].clients[0];
    assert!(Record::of_training(&experiment, id, twice).is_err());
}

#[test]
fn a_log_needs_a_weight_for_each_client() {
    let experiment = experiment(ExperimentParams { seeds: 1, ..small(&["random"]) });
    let (records, _) = play(&experiment, 1);
    let mut logs = logs(&records[0]).to_vec();
    logs[1].weights.pop();
    assert!(Record::of_training(&experiment, records[0].id, logs).is_err());
}
