//! Any number of threads, and any number of interruptions: the same bytes.

use crate::worlds::{PARAMETERS, Store, bits, checkpoint, field, play, small, study};
use agewise_learn::aggregate::{Server, ServerRule};
use agewise_learn::train::Crew;
use agewise_sim::study::{Checkpoint, Record, RunId, Study, StudyParams, TrainingRun, play_all};
use std::sync::atomic::Ordering;

const WITH_STATE: [&str; 4] =
    ["oldest-first", "phased(reshuffle=0.5)", "markov-optimal@cold", "random"];

const RULES: [ServerRule; 3] = [
    ServerRule::Average,
    ServerRule::Momentum { learning_rate: 0.8, beta: 0.9 },
    ServerRule::Adam { learning_rate: 0.02, beta1: 0.9, beta2: 0.99, tau: 1e-3 },
];

/// Softmax with weight decay, as Theorem 1 asks, with looks at all clients in every other round.
fn with_bound() -> StudyParams {
    StudyParams { weight_decay: 0.05, bound: true, eval_every: 2, ..small(&WITH_STATE) }
}

/// Everything that a record says; numbers are printed with all their digits.
fn text(records: &[Record]) -> String {
    format!("{records:#?}")
}

#[test]
fn threads_leave_no_trace() {
    for params in [small(&["oldest-first", "random", "phased"]), with_bound(), field()] {
        let study = study(StudyParams { rounds: 5, ..params });
        let (records, models) = play(&study, 1);
        // More threads than runs, and none at all, too.
        for threads in [2, 3, 7, 20, 0] {
            let (others, other_models) = play(&study, threads);
            assert_eq!(text(&others), text(&records), "{threads} threads");
            assert_eq!(other_models, models, "{threads} threads");
        }
    }
}

/// Plays a run to its end, and keeps what is needed to go on from each of its rounds.
pub(crate) fn unbroken<'a>(
    study: &'a Study,
    id: RunId,
    crew: &mut Crew,
) -> (TrainingRun<'a>, Vec<Checkpoint>) {
    let mut run = TrainingRun::new(study, id).unwrap();
    let mut kept = vec![checkpoint(&run)];
    while !run.is_finished() {
        run.play_round(crew).unwrap();
        kept.push(checkpoint(&run));
    }
    (run, kept)
}

#[test]
fn every_round_is_a_place_to_go_on_from() {
    let with_rule = |server| StudyParams { server, ..small(&WITH_STATE) };
    let skew = StudyParams { skew: true, rounds: 4, ..small(&WITH_STATE) };
    let ends_early = StudyParams { targets: vec![0.5], stop_at_target: true, ..small(&WITH_STATE) };
    let others = [with_bound(), skew, ends_early, field()];
    for params in RULES.map(with_rule).into_iter().chain(others) {
        let study = study(StudyParams { seeds: 1, ..params });
        let mut crew = Crew::new(study.trainer(), 1).unwrap();
        let mut pair = Crew::new(study.trainer(), 2).unwrap();
        for id in study.runs() {
            let (whole, kept) = unbroken(&study, id, &mut crew);
            for (round, checkpoint) in kept.into_iter().enumerate() {
                // Logs beyond the checkpoint are not used, so both lists give the same.
                for logs in [&whole.logs()[..round], whole.logs()] {
                    let fresh = StudyParams { ..study.params().clone() };
                    let fresh = crate::worlds::study(fresh);
                    let mut run =
                        TrainingRun::resume(&fresh, id, logs.to_vec(), checkpoint.clone()).unwrap();
                    assert_eq!(run.logs(), &whole.logs()[..round]);
                    while !run.is_finished() {
                        run.play_round(&mut pair).unwrap();
                    }
                    assert_eq!(run.logs(), whole.logs(), "{id:?} from round {round}");
                    assert_eq!(bits(run.global()), bits(whole.global()));
                    assert_eq!(run.server(), whole.server());
                    assert_eq!(run.sketches(), whole.sketches());
                }
            }
        }
    }
}

#[test]
fn stopped_again_and_again_it_ends_the_same() {
    let rules = RULES.map(|server| StudyParams { server, rounds: 6, ..small(&WITH_STATE) });
    let asks = ["age-herding", "oort", "power-of-choice", "divfl"];
    let asks = StudyParams { rounds: 6, policies: asks.map(str::to_string).to_vec(), ..field() };
    let cases = rules.into_iter().chain([asks]).zip([(1, 1), (3, 1), (3, 4), (2, 3)]);
    for (threads, keep_every, params) in cases.map(|(p, (t, k))| (t, k, p)) {
        let study = study(params);
        let (whole, models) = play(&study, 2);
        let store = Store::new(keep_every);
        let mut stops = 0;
        // The longer it takes, the longer it may go on, so that it ends.
        let records = loop {
            let pause = [1, 5, 2, 9, 3][stops % 5] + stops / 2;
            store.stop_at.store(store.played.load(Ordering::SeqCst) + pause, Ordering::SeqCst);
            let records = play_all(&study, threads, &store).unwrap();
            assert_eq!(records.len(), 8);
            for (record, whole) in records.iter().zip(&whole) {
                assert_eq!(record.id, whole.id);
                assert_eq!(record.logs, whole.logs[..record.logs.len()]);
                assert_eq!(record.finished, record.logs.len() == 6);
            }
            if records.iter().all(|record| record.finished) {
                break records;
            }
            stops += 1;
        };
        assert!(stops > 4, "{stops} stops");
        assert_eq!(text(&records), text(&whole));
        assert!(store.models().into_iter().eq(models.into_iter().map(|(id, m)| (id, Some(m)))));
    }
}

#[test]
fn a_watcher_that_fails_ends_the_study_and_nothing_is_lost() {
    let study = study(small(&WITH_STATE));
    let (whole, _) = play(&study, 1);
    for threads in [1, 3] {
        let store = Store::new(1);
        store.fail_at.store(9, Ordering::SeqCst);
        let error = play_all(&study, threads, &store).unwrap_err();
        assert_eq!(error.field(), "disk");
        // Everyone ends with the round that was under way.
        assert!(store.played.load(Ordering::SeqCst) <= 9 + threads);
        assert_eq!(text(&play_all(&study, threads, &store).unwrap()), text(&whole));
    }
}

#[test]
fn what_does_not_fit_is_not_gone_on_with() {
    let study = study(StudyParams { seeds: 1, ..small(&["oldest-first", "random"]) });
    let id = RunId { seed: 0, contender: 0 };
    let mut crew = Crew::new(study.trainer(), 1).unwrap();
    let (whole, kept) = unbroken(&study, id, &mut crew);
    let logs = whole.logs().to_vec();
    let field = |logs: &[_], checkpoint: Checkpoint| {
        let resumed = TrainingRun::resume(&study, id, logs.to_vec(), checkpoint);
        resumed.err().map(|error| error.field().to_string())
    };
    assert_eq!(field(&logs[..2], kept[3].clone()).as_deref(), Some("log"));
    let short = Checkpoint { global: vec![0.0; PARAMETERS - 1], ..kept[3].clone() };
    assert_eq!(field(&logs, short).as_deref(), Some("checkpoint"));
    let server = Server::with_memory(RULES[0], vec![0.0; 3], Vec::new());
    let forgetful = Checkpoint { server, ..kept[3].clone() };
    assert_eq!(field(&logs, forgetful).as_deref(), Some("server"));
    let mut wrong = [logs.clone(), logs.clone(), logs.clone(), logs.clone()];
    wrong[0][1].round = 7;
    wrong[1][1].losses.pop();
    wrong[2][1].clients[0] = 12;
    wrong[3].remove(1);
    for (case, logs) in wrong.iter().enumerate() {
        assert_eq!(field(logs, kept[3].clone()).as_deref(), Some("log"), "case {case}");
        assert!(Record::new(&study, id, logs.clone()).is_err(), "case {case}");
    }
    let mut twice = logs.clone();
    twice[1].clients[1] = twice[1].clients[0];
    assert!(Record::new(&study, id, twice).is_err());
}

#[test]
fn a_log_needs_a_weight_for_each_client() {
    let study = study(StudyParams { seeds: 1, ..small(&["random"]) });
    let (mut records, _) = play(&study, 1);
    let record = records.remove(0);
    let mut logs = record.logs;
    logs[1].weights.pop();
    assert!(Record::new(&study, record.id, logs).is_err());
}

#[test]
fn a_checkpoint_of_another_rule_is_refused() {
    let study = study(StudyParams { seeds: 1, ..small(&["random"]) });
    let id = RunId { seed: 0, contender: 0 };
    let server = Server::new(RULES[1], PARAMETERS).unwrap();
    let global = study.scene(0).unwrap().first.clone();
    let (sketched, sketches) = (vec![], vec![]);
    let other = Checkpoint { rounds: 0, global, server, sketched, sketches };
    assert!(TrainingRun::resume(&study, id, Vec::new(), other).is_err());
}
