//! Self-calibration in the simulator: the cohort returns to its target whatever the population does.

use agewise_core::AgeLaw;
use agewise_experiment::{
    Experiment, ExperimentParams, LoadRecord, RoundRecord, RunId, SelectionRun,
};

const COHORT: u64 = 300;

struct Outcome {
    rows: Vec<RoundRecord>,
    load: LoadRecord,
}

fn run(change: impl Fn(&mut ExperimentParams)) -> Outcome {
    let mut params = ExperimentParams {
        clients: 2_000,
        cohort: COHORT,
        rounds: 250,
        warmup: 50,
        policies: vec!["markov-optimal".to_string()],
        calibrate: Some(true),
        ..ExperimentParams::default()
    };
    change(&mut params);
    let experiment = Experiment::new(params, &[]).unwrap();
    let spec = experiment.selection(RunId { seed: 0, variant: 0 }).unwrap();
    let mut run = SelectionRun::new(spec).unwrap();
    run.play_on(|_| true).unwrap();
    let (rows, load) = run.finish();
    Outcome { rows, load }
}

/// The mean cohort of rounds 50 to 250, within 3% of the target as the issue asks for. The noise of that mean
/// is far smaller: reports of one interval are nearly a census.
fn assert_on_target(name: &str, outcome: &Outcome) {
    let mean = outcome.load.cohort_mean;
    assert!((mean / COHORT as f64 - 1.0).abs() < 0.03, "{name}: {mean}");
}

#[test]
fn the_cohort_returns_to_its_target() {
    assert_on_target("calm", &run(|_| {}));
    assert_on_target(
        "30% offline in each round",
        &run(|p| p.world.availability = "bernoulli:0.7".into()),
    );
    assert_on_target(
        "30% offline, in spells",
        &run(|p| p.world.availability = "on-off:14,6".into()),
    );
    assert_on_target("day and night", &run(|p| p.world.availability = "diurnal:24,0.6".into()));
    assert_on_target("20% dropout", &run(|p| p.world.dropout = 0.2));
    assert_on_target("tenfold growth over 200 rounds", &run(|p| p.world.join = 0.045));
    assert_on_target("shrinking by half over 250 rounds", &run(|p| p.world.leave = 0.003));
    let all = run(|p| {
        p.world.availability = "on-off:14,6".into();
        p.world.dropout = 0.2;
        p.world.join = 0.045;
        p.world.leave = 0.002;
    });
    assert_on_target("everything at once", &all);
    assert_on_target("from a cold start", &run(|p| p.start = agewise_core::Start::Cold));
}

/// Without calibration the same worlds miss the target by far: the test above can fail.
#[test]
fn without_it_the_cohort_is_off() {
    let share = |change: &dyn Fn(&mut ExperimentParams)| {
        let outcome = run(|p| {
            change(p);
            p.calibrate = Some(false);
        });
        outcome.load.cohort_mean / COHORT as f64
    };
    assert!(share(&|p| p.world.join = 0.045) > 3.0);
    assert!(share(&|p| p.world.availability = "on-off:14,6".into()) < 0.9);
}

/// Three in ten clients are away for good; the others follow the law for the interval that was published.
/// The issue allows 10% for the variance of X.
#[test]
fn clients_that_are_always_there_keep_the_laws_own_variance() {
    let outcome = run(|p| p.world.availability = "on-off:1000000000,428571428".into());
    assert_on_target("30% away for good", &outcome);
    let recorded = &outcome.rows[50..];
    let interval = recorded.iter().map(|row| row.interval).sum::<f64>() / recorded.len() as f64;
    let own = AgeLaw::optimal(interval, 10).unwrap().interval().variance;
    let measured = outcome.load.var_interval.unwrap();
    assert!((measured / own - 1.0).abs() < 0.1, "{measured}, law {own} at {interval}");
}

/// Long intervals, where waves of clients that act in step die out slowly: after 1,500 rounds the cohort has
/// still the spread of independent clients (a binomial's; twice that is allowed), and its mean.
#[test]
fn no_waves_build_up() {
    for (clients, cohort) in [(10_000, 500), (10_000, 200)] {
        for world in ["offline", "dropout"] {
            let outcome = run(|p| {
                (p.clients, p.cohort, p.max_age, p.rounds) = (clients, cohort, 100.into(), 1_500);
                p.warmup = 1_000;
                match world {
                    "offline" => p.world.availability = "bernoulli:0.7".into(),
                    _ => p.world.dropout = 0.5,
                }
            });
            let (mean, sd) = (outcome.load.cohort_mean, outcome.load.cohort_sd);
            let binomial = (cohort as f64 * (1.0 - cohort as f64 / clients as f64)).sqrt();
            assert!(sd < 2.0 * binomial, "{cohort} of {clients}, {world}: sd {sd}, {binomial}");
            assert!((mean / cohort as f64 - 1.0).abs() < 0.01, "{world}: {mean}");
        }
    }
}

/// When more than enough clients come back after a time with too few, the target is reached again.
#[test]
fn a_shortage_is_forgotten() {
    let outcome = run(|p| {
        p.world.availability = "diurnal:200,1".into();
        (p.rounds, p.warmup) = (1_200, 200);
    });
    assert_on_target("long nights", &outcome);
}

/// The published number settles: with 20,000 clients the furthest of the last hundred rounds is within 5% of
/// their mean, so nothing oscillates. (With 2,000 it is noisier, within 7%.)
#[test]
fn the_published_interval_is_stable() {
    for availability in ["always", "bernoulli:0.7"] {
        let outcome = run(|p| {
            p.world.availability = availability.into();
            (p.clients, p.cohort) = (20_000, 3_000);
        });
        let late: Vec<f64> = outcome.rows[150..].iter().map(|row| row.interval).collect();
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        let spread = late.iter().map(|x| (x / mean - 1.0).abs()).fold(0.0, f64::max);
        assert!(spread < 0.05, "{availability}: {spread} around {mean}");
    }
}
