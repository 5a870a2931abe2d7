//! Calibration where only some of those who enrolled are there: how fast and how steadily the interval finds them.

use crate::common::policy;
use agewise_core::{
    Availability, Calibrator, Draws, Report, Seed, Selector, SettingParams, Start, Stream,
};

/// Cohort sizes and intervals of rounds in which the first `there` of 45 clients are connected, 5 per round, and each
/// report is lost with this chance.
fn run(text: &str, there: usize, dropout: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let setting = SettingParams::new(45, 5, agewise_core::MaxAge::Auto).check().unwrap();
    let seed = Seed(seed);
    let mut selector = Selector::new(&policy(text), setting, seed, Start::Stationary).unwrap();
    let mut calibrator = Calibrator::new(5, 9.0).unwrap();
    let mask: Vec<bool> = (0..45).map(|client| client < there).collect();
    let (mut sizes, mut intervals) = (Vec::new(), Vec::new());
    for round in 0..600 {
        selector.set_interval(calibrator.interval()).unwrap();
        let cohort = selector.select(Availability::Only(&mask)).unwrap();
        let lost = Draws::new(seed, Stream::custom(20), round);
        let delivered = |&client: &u32| lost.of(u64::from(client)).unit() >= dropout;
        let reporting = cohort.clients.iter().copied().filter(delivered);
        let accepted: Vec<Report> = reporting.map(Report::plain).collect();
        selector.finish(&accepted).unwrap();
        calibrator.observe(accepted.len() as u64);
        sizes.push(accepted.len() as f64);
        intervals.push(calibrator.interval());
    }
    (sizes, intervals)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// 18 of 45 clients are connected. Without calibration 2 of them come in a round. With it the interval, 9 at first, is
/// within a quarter of 18/5 after 3 first intervals, and its mean from there on within 10%; 20 seeds, as 18 clients are
/// few and a single run is noisy (a binomial's sd of 1.9 in each round).
#[test]
fn the_interval_follows_who_is_really_there() {
    for text in ["markov-optimal", "markov-mixing", "markov-capped", "markov-linear"] {
        for dropout in [0.0, 0.1, 0.3] {
            let runs: Vec<_> = (0..20).map(|seed| run(text, 18, dropout, seed)).collect();
            let between =
                |values: &dyn Fn(usize) -> f64| mean(&(0..20).map(values).collect::<Vec<_>>());
            let early = between(&|index| mean(&runs[index].1[27..36]));
            let late = between(&|index| mean(&runs[index].1[100..]));
            let context = format!("{text}, dropout {dropout}: {early}, {late}");
            // A report that is lost makes a client come back later, and the interval is that much shorter.
            assert!(early < 1.25 * 3.6 && late < 1.1 * 3.6, "{context}");
            let cohort = between(&|index| mean(&runs[index].0[100..]));
            assert!((cohort / 5.0 - 1.0).abs() < 0.05, "{context}: cohort {cohort}");
            let widest = runs.iter().flat_map(|(_, intervals)| &intervals[100..]);
            let widest = widest.fold(0.0f64, |widest, &interval| widest.max(interval));
            assert!(widest < 1.6 * 3.6, "{context}: up to {widest}");
        }
    }
}

/// The test above can fail: the interval that counts who enrolled gives cohorts of 2.
#[test]
fn without_calibration_cohorts_are_small() {
    let setting = SettingParams::new(45, 5, agewise_core::MaxAge::Auto).check().unwrap();
    let policy = policy("markov-capped");
    let mut selector = Selector::new(&policy, setting, Seed(1), Start::Stationary).unwrap();
    let mask: Vec<bool> = (0..45).map(|client| client < 18).collect();
    let mut reported = 0;
    for _ in 0..600 {
        let cohort = selector.select(Availability::Only(&mask)).unwrap();
        let accepted: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
        reported += accepted.len();
        selector.finish(&accepted).unwrap();
    }
    assert!(reported < 600 * 5 / 2, "{reported}");
}
