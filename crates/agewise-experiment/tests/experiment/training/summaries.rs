//! What all runs say together, against brute force over made-up logs.

use super::worlds::{CLASSES, experiment, run, small, trained};
use agewise_experiment::{
    Experiment, ExperimentParams, Interval, Measure, Pair, Record, RoundLog, RunId, Significance,
    Summary, TestScore, TrainingRecord,
};
use std::f64::consts::PI;

const POLICIES: [&str; 3] = ["random", "oldest-first", "phased"];
const BASE: usize = 1;
/// The 97.5% quantiles of Student's t with 1 and 2 degrees of freedom.
const QUANTILES: [f64; 2] = [12.706_204_736_432_095, 4.302_652_729_911_275];

/// For each policy and seed the rounds to 50% and to 80%; 99 is never.
const ROUNDS: [[(u64, u64); 3]; 3] =
    [[(6, 99), (7, 99), (8, 99)], [(4, 5), (4, 5), (4, 6)], [(3, 99), (9, 9), (4, 10)]];

fn params() -> ExperimentParams {
    let baseline = Some(POLICIES[BASE].to_string());
    let params = ExperimentParams { rounds: 10, baseline, seeds: 3, ..small(&POLICIES) };
    trained(params, |training| training.targets = vec![0.5, 0.8])
}

fn training(record: &Record) -> &TrainingRecord {
    record.training.as_ref().unwrap()
}

/// Test images of 200 that are recognised after a round: few, then more than half, then nearly all.
fn hits(id: RunId, round: u64) -> u64 {
    let (half, most) = ROUNDS[id.variant][id.seed as usize];
    let luck = u64::from(id.seed) * 3 + id.variant as u64;
    let level = if round >= most {
        164
    } else if round >= half {
        104
    } else {
        50
    };
    level + (luck * luck + round) % 5
}

/// A run that goes as the table says, at most so many rounds.
fn made_up_run(experiment: &Experiment, id: RunId, rounds: u64) -> Record {
    let per_class = 200 / CLASSES as u64;
    let variant = experiment.variant(id).unwrap();
    let mut logs: Vec<RoundLog> = Vec::new();
    while (logs.len() as u64) < rounds && !experiment.is_finished(variant, &logs) {
        let round = logs.len() as u64;
        let mut left = hits(id, round + 1);
        let correct = (0..CLASSES).map(|_| {
            let here = left.min(per_class);
            left -= here;
            here
        });
        let test = TestScore {
            samples: 200,
            loss: Some(2.0 / (round + 1) as f64),
            class_samples: vec![per_class; CLASSES],
            class_correct: correct.collect(),
        };
        let first = (round as u32 + id.seed) % 9;
        logs.push(RoundLog {
            round,
            available: 12,
            clients: (first..first + 4).collect(),
            weights: vec![0.25; 4],
            losses: vec![Some(1.0); 4],
            test: Some(test),
            ..RoundLog::default()
        });
    }
    Record::of_training(experiment, id, logs).unwrap()
}

fn made_up_runs(experiment: &Experiment) -> Vec<Record> {
    experiment.runs().into_iter().map(|id| made_up_run(experiment, id, 10)).collect()
}

fn sum_up(experiment: &Experiment, records: &[Record]) -> Summary {
    Summary::new(experiment, records).unwrap()
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9 * one.abs().max(1.0)
}

/// Mean, half the width of the 95% interval, and p-value of two or three differences, with closed forms of Student's t.
fn student(differences: &[f64]) -> (f64, f64, f64) {
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let square: f64 = differences.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (square / (count - 1.0) / count).sqrt();
    let t = (mean / error).abs();
    let p = if differences.len() == 2 {
        1.0 - 2.0 / PI * t.atan()
    } else {
        1.0 - t / (2.0 + t * t).sqrt()
    };
    let equal = differences.iter().all(|&difference| difference == differences[0]);
    // Equal differences say no more than that all have one sign.
    let p = if equal { 0.5f64.powf(count - 1.0) } else { p };
    (mean, QUANTILES[differences.len() - 2] * error, if mean == 0.0 { 1.0 } else { p })
}

/// Holm: the i-th smallest of k p-values times k - i, counted from 0, and none below the one before.
fn holm(p_values: &[f64]) -> Vec<f64> {
    let rank = |p: f64| p_values.iter().filter(|&&other| other < p).count();
    let scaled = |p: f64| ((p_values.len() - rank(p)) as f64 * p).min(1.0);
    let up_to = |p: f64| p_values.iter().filter(move |&&other| other <= p);
    p_values.iter().map(|&p| up_to(p).map(|&other| scaled(other)).fold(0.0, f64::max)).collect()
}

/// What is compared, straight from the table: logarithms of rounds, or accuracies in percent.
fn value(record: &Record, measure: Measure) -> f64 {
    let accuracies: Vec<f64> = (1..=10).map(|round| hits(record.id, round) as f64 / 2.0).collect();
    match measure {
        Measure::RoundsTo(target) => {
            let first = accuracies.iter().position(|&accuracy| accuracy >= 100.0 * target);
            (first.map_or(10, |first| first + 1) as f64).ln()
        }
        // Straight lines from one evaluation to the next.
        Measure::Area => {
            accuracies.windows(2).map(|two| f64::midpoint(two[0], two[1])).sum::<f64>() / 9.0
        }
        Measure::FinalAccuracy => accuracies[9],
        Measure::WorstTenth => 100.0 * training(record).worst_tenth().unwrap(),
        _ => unreachable!("the task is measured by its accuracy"),
    }
}

fn place(label: &str) -> usize {
    POLICIES.iter().position(|&policy| policy == label).unwrap()
}

/// Checks the pairs of one measure against the records, and returns their verdicts.
fn check_pairs(pairs: &[&Pair], records: &[Record], measure: Measure) -> Vec<Significance> {
    let finished = |label: &str| -> Vec<&Record> {
        let of_label = |record: &&Record| record.finished && record.id.variant == place(label);
        records.iter().filter(of_label).collect()
    };
    let mut raw = Vec::new();
    for pair in pairs {
        let others = finished(&pair.other);
        let both: Vec<(&Record, &Record)> = finished(&pair.policy)
            .into_iter()
            .filter_map(|one| Some((one, *others.iter().find(|two| two.id.seed == one.id.seed)?)))
            .collect();
        let differences: Vec<f64> =
            both.iter().map(|(one, two)| value(one, measure) - value(two, measure)).collect();
        let (mean, half, p) = student(&differences);
        let rounds = matches!(measure, Measure::RoundsTo(_));
        let scale = |value: f64| if rounds { 100.0 * (value.exp() - 1.0) } else { value };
        let Interval { low, high } = pair.interval.unwrap();
        assert_eq!(pair.pairs, both.len());
        assert!(close(pair.effect, scale(mean)), "{pair:?}: {}", scale(mean));
        assert!(close(low, scale(mean - half)) && close(high, scale(mean + half)), "{pair:?}");
        assert!(close(pair.p_value.unwrap(), p), "{pair:?}: {p}");
        let never = |record: &Record| match measure {
            Measure::RoundsTo(target) => training(record).rounds_to(target).is_none(),
            _ => false,
        };
        let at_limit = both.iter().filter(|(one, two)| never(one) || never(two)).count();
        assert_eq!(pair.at_limit, at_limit, "{pair:?}");
        raw.push(p);
    }
    for (pair, adjusted) in pairs.iter().zip(holm(&raw)) {
        assert!(close(pair.p_adjusted.unwrap(), adjusted), "{pair:?}: {adjusted}");
        let expected = match (pair.p_value.unwrap() < 0.05, adjusted < 0.05) {
            (true, true) => Significance::Significant,
            (true, false) => Significance::OnlyUncorrected,
            (false, _) => Significance::NotSignificant,
        };
        assert_eq!(pair.verdict, expected, "{pair:?}");
    }
    pairs.iter().map(|pair| pair.verdict).collect()
}

fn of_measure(summary: &Summary, measure: Measure) -> Vec<&Pair> {
    summary.pairs.iter().filter(|pair| pair.measure == measure).collect()
}

const MEASURES: [Measure; 5] = [
    Measure::RoundsTo(0.5),
    Measure::RoundsTo(0.8),
    Measure::Area,
    Measure::FinalAccuracy,
    Measure::WorstTenth,
];

#[test]
fn pairs_are_what_their_definitions_say() {
    let experiment = experiment(params());
    let records = made_up_runs(&experiment);
    let summary = sum_up(&experiment, &records);
    assert_eq!((summary.finished_runs, summary.runs), (9, 9));
    assert_eq!((summary.baseline.as_str(), summary.seeds), ("oldest-first", 3));
    assert_eq!(summary.pairs.len(), 15);
    assert_eq!(summary.main_measure(), Some(Measure::Area));
    let mut verdicts = Vec::new();
    for measure in MEASURES {
        let pairs = of_measure(&summary, measure);
        let names: Vec<(&str, &str)> =
            pairs.iter().map(|pair| (pair.policy.as_str(), pair.other.as_str())).collect();
        // Those with the baseline come first, and then each other pair once.
        let base = POLICIES[BASE];
        assert_eq!(names, [("random", base), ("phased", base), ("phased", "random")]);
        verdicts.push(check_pairs(&pairs, &records, measure));
    }
    // As the table was made: 50% alone, 80% in any case.
    assert_eq!(
        verdicts[0],
        [Significance::OnlyUncorrected, Significance::NotSignificant, Significance::NotSignificant]
    );
    assert_eq!(
        verdicts[1],
        [Significance::Significant, Significance::Significant, Significance::NotSignificant]
    );
    let at_limit: Vec<usize> =
        of_measure(&summary, MEASURES[1]).iter().map(|pair| pair.at_limit).collect();
    assert_eq!(at_limit, [3, 1, 3]);
}

#[test]
fn runs_that_never_arrive_are_counted() {
    let experiment = experiment(params());
    let summary = sum_up(&experiment, &made_up_runs(&experiment));
    let never = f64::INFINITY;
    // Medians of the table; three runs resampled have all three values as medians in more than 2.5% of cases (7 of 27
    // for the extremes), so the interval goes from the first to the last.
    let expected = [
        [(Some(7.0), (6.0, 8.0), 3), (None, (never, never), 0)],
        [(Some(4.0), (4.0, 4.0), 3), (Some(5.0), (5.0, 6.0), 3)],
        [(Some(4.0), (3.0, 9.0), 3), (Some(10.0), (9.0, never), 2)],
    ];
    for (policy, expected) in summary.policies.iter().zip(expected) {
        assert_eq!(policy.runs, 3);
        for ((to, target), (median, (low, high), reached)) in
            policy.rounds_to.iter().zip([0.5, 0.8]).zip(expected)
        {
            assert_eq!((to.target, to.rounds.median), (target, median), "{}", policy.policy);
            assert_eq!(to.rounds.interval, Some(Interval { low, high }), "{}", policy.policy);
            assert_eq!((to.rounds.reached, to.rounds.runs), (reached, 3));
        }
    }
}

type Value<'a> = &'a dyn Fn(&Record) -> f64;

#[test]
fn means_are_those_of_the_finished_runs() {
    let experiment = experiment(params());
    let mut records = made_up_runs(&experiment);
    // The last run of the first policy has not ended.
    records[6] = made_up_run(&experiment, run(2, 0), 9);
    assert!(!records[6].finished);
    let summary = sum_up(&experiment, &records);
    assert_eq!((summary.finished_runs, summary.runs), (8, 9));
    let runs: Vec<usize> = summary.policies.iter().map(|policy| policy.runs).collect();
    assert_eq!(runs, [2, 3, 3]);
    assert_eq!(summary.policies[0].rounds_to[0].rounds.runs, 2);
    for (variant, policy) in summary.policies.iter().enumerate() {
        let finished: Vec<&Record> = records
            .iter()
            .filter(|record| record.finished && record.id.variant == variant)
            .collect();
        let expected: [(&str, Value<'_>); 8] = [
            ("final_accuracy", &|r| value(r, Measure::FinalAccuracy) / 100.0),
            ("area", &|r| value(r, Measure::Area) / 100.0),
            ("final_loss", &|_| 0.2),
            ("rounds", &|_| 10.0),
            ("rejected", &|_| 0.0),
            ("cohort_mean", &|_| 4.0),
            ("bytes_moved", &|_| 40.0 * 68.0 * 8.0),
            ("jain", &|r| r.load.as_ref().unwrap().jain.unwrap()),
        ];
        for (name, value) in expected {
            let values: Vec<f64> = finished.iter().map(|record| value(record)).collect();
            let (mean, half, _) = student(&values);
            let found = policy.means[name];
            assert!(close(found.mean, mean), "{name}: {found:?}, {mean}");
            assert!(close(found.half_width.unwrap(), half), "{name}: {found:?}, {half}");
        }
    }
    for measure in MEASURES {
        let pairs = of_measure(&summary, measure);
        let counts: Vec<usize> = pairs.iter().map(|pair| pair.pairs).collect();
        assert_eq!(counts, [2, 3, 2]);
        check_pairs(&pairs, &records, measure);
    }
}

#[test]
fn runs_that_stop_at_the_target_are_compared_by_rounds_alone() {
    let experiment = experiment(trained(params(), |training| training.stop_at_target = true));
    let records = made_up_runs(&experiment);
    for record in &records {
        let (_, most) = ROUNDS[record.id.variant][record.id.seed as usize];
        assert!(record.finished);
        assert_eq!(record.rounds.len() as u64, most.min(10));
    }
    let summary = sum_up(&experiment, &records);
    assert_eq!(summary.pairs.len(), 6);
    for measure in &MEASURES[..2] {
        check_pairs(&of_measure(&summary, *measure), &records, *measure);
    }
    for (place, policy) in summary.policies.iter().enumerate() {
        for name in ["final_accuracy", "final_loss", "area"] {
            assert!(!policy.means.contains_key(name), "{name} of runs of different lengths");
        }
        assert!(policy.means.contains_key("rounds"));
        // Models that are equally good serve some clients worse than others.
        let own = records.iter().filter(|record| record.id.variant == place);
        let worst: Vec<f64> = own.filter_map(|record| training(record).worst_tenth()).collect();
        let mean = worst.iter().sum::<f64>() / worst.len() as f64;
        assert!((policy.means["worst_tenth"].mean - mean).abs() < 1e-12);
    }
}

#[test]
fn one_pair_is_too_few() {
    let experiment = experiment(ExperimentParams { seeds: 1, ..params() });
    let summary = sum_up(&experiment, &made_up_runs(&experiment));
    assert_eq!(summary.pairs.len(), 15);
    for pair in &summary.pairs {
        assert_eq!((pair.pairs, pair.verdict), (1, Significance::TooFew));
        assert!(pair.interval.is_none() && pair.p_value.is_none() && pair.p_adjusted.is_none());
    }
}

#[test]
fn without_targets_the_area_counts() {
    let experiment = experiment(trained(params(), |training| training.targets.clear()));
    let summary = sum_up(&experiment, &made_up_runs(&experiment));
    assert_eq!(summary.main_measure(), Some(Measure::Area));
    assert!(summary.policies.iter().all(|policy| policy.rounds_to.is_empty()));
    // Nothing played is nothing said.
    let nothing: Vec<Record> =
        experiment.runs().into_iter().map(|id| made_up_run(&experiment, id, 0)).collect();
    let summary = sum_up(&experiment, &nothing);
    assert_eq!((summary.finished_runs, summary.runs, summary.pairs.len()), (0, 9, 0));
    assert!(summary.policies.iter().all(|policy| policy.runs == 0 && policy.means.is_empty()));
}
