//! A run with a task and a run without one, in the same world and under the same seed: the same cohorts.

use crate::training::worlds::{experiment, logs, play_in_memory, run, small};
use agewise_experiment::{
    Experiment, ExperimentParams, LoadRecord, RoundRecord, SelectionRun, WorldParams,
};

/// Policies that do not learn from training, on every engine.
const POLICIES: [&str; 9] = [
    "random",
    "probabilistic",
    "markov-optimal",
    "markov-linear@cold",
    "markov-custom(p=[0, 0.2, 0, 0.9, 0.3])",
    "oldest-first",
    "phased",
    "phased(reshuffle=0.3)",
    "round-robin",
];

fn world(availability: &str, dropout: f64, join: f64, leave: f64) -> WorldParams {
    let availability = availability.to_string();
    WorldParams { availability, dropout, join, leave, ..WorldParams::default() }
}

/// To the last bit, but for the order in which engines add up weights. Only training runs are small enough to count which
/// clients meet.
fn counted(load: LoadRecord) -> LoadRecord {
    let (sigma, mean_covariance) = (rounded(load.sigma), rounded(load.mean_covariance));
    LoadRecord {
        sigma,
        mean_covariance,
        never_together: None,
        co_participation_spread: None,
        ..load
    }
}

fn rounded(figure: Option<f64>) -> Option<f64> {
    figure.map(|figure| (1e9 * figure).round() / 1e9)
}

/// The same cohorts, and the same figures of load.
#[test]
fn training_changes_no_cohort_and_no_figure_of_load() {
    // With those who join there are 40 clients: all of them, and 12 alone, share 480 images evenly.
    for world in [
        world("always", 0.0, 0.0, 0.0),
        world("bernoulli:0.6", 0.0, 0.0, 0.0),
        world("on-off:4,2", 0.3, 0.0, 0.0),
        world("diurnal:6,0.8", 0.0, 0.0, 0.05),
        world("always", 0.0, 0.1, 0.03),
        world("on-off:5,2", 0.2, 0.1, 0.02),
    ] {
        for calibrate in [Some(false), None] {
            let params = ExperimentParams {
                rounds: 24,
                warmup: 3,
                seeds: 1,
                calibrate,
                world: world.clone(),
                ..small(&POLICIES)
            };
            let without = ExperimentParams { training: None, ..params.clone() };
            let without = Experiment::new(without, &[]).unwrap();
            for record in play_in_memory(&experiment(params), 2) {
                let name = format!("{} in {world:?}", POLICIES[record.id.variant]);
                let spec = without.selection(run(0, record.id.variant)).unwrap();
                let mut selection = SelectionRun::new(spec).unwrap();
                for log in logs(&record) {
                    selection.play().unwrap();
                    assert_eq!(log.clients, selection.last_cohort(), "{name}, {}", log.round);
                }
                let (rows, load) = selection.finish();
                let plain = |row: &RoundRecord| RoundRecord { sigma: rounded(row.sigma), ..*row };
                let rows: Vec<RoundRecord> = rows.iter().map(plain).collect();
                assert_eq!(record.rounds.iter().map(plain).collect::<Vec<_>>(), rows, "{name}");
                assert_eq!(counted(record.load.unwrap()), counted(load), "{name}");
            }
        }
    }
}

/// What came of the world is in the summary: it is the same whether anything is trained.
#[test]
fn the_summary_says_what_came_of_the_world() {
    let world = world("bernoulli:0.5", 0.25, 0.0, 0.0);
    let params = ExperimentParams { rounds: 40, world, ..small(&["random", "oldest-first"]) };
    let without = ExperimentParams { training: None, ..params.clone() };
    for experiment in [experiment(params), Experiment::new(without, &[]).unwrap()] {
        let records = play_in_memory(&experiment, 2);
        let summary = agewise_experiment::Summary::new(&experiment, &records).unwrap();
        for policy in &summary.policies {
            let mean = |name: &str| policy.means[name].mean;
            // 12 clients for 40 rounds and 2 seeds: 6 is the mean of 960 coins, whose deviation is 0.19.
            assert!((mean("available") - 6.0).abs() < 1.0, "{}", mean("available"));
            assert!(mean("selected") > 3.0 && mean("selected") <= 4.0);
            // A quarter of 320 selections at most drops out, with a deviation of 8.
            let share = mean("reported") / mean("selected");
            assert!((share - 0.75).abs() < 0.12, "{share}");
            assert_eq!(mean("never_reached"), 0.0);
            assert!(policy.theory.is_none(), "no closed form is about such a world");
        }
    }
}

/// A client that never reports is not trained, keeps its age, and costs a download.
#[test]
fn who_drops_out_costs_a_download_and_is_not_credited() {
    let world = world("always", 0.5, 0.0, 0.0);
    let params = ExperimentParams { rounds: 12, seeds: 1, world, ..small(&["oldest-first"]) };
    let experiment = experiment(params);
    let record = &play_in_memory(&experiment, 1)[0];
    let mut dropped = 0;
    for log in logs(record) {
        assert_eq!((log.selected(), log.available), (4, 12));
        assert_eq!(log.losses.len(), log.clients.len());
        if !log.clients.is_empty() {
            let total: f64 = log.weights.iter().sum();
            assert!((total - 1.0).abs() < 1e-12, "weights are of those who report: {total}");
        }
        dropped += log.dropped.len() as u64;
    }
    assert!(dropped > 8, "{dropped} of 48");
    let parameters = experiment.task().unwrap().parameters() as u64;
    let bytes = (2 * (48 - dropped) + dropped) * 4 * parameters;
    assert_eq!(experiment.bytes_moved(record), Some(bytes));
    assert_eq!((record.selected(), record.reported()), (48, 48 - dropped));
}

/// Everyone who will ever join has a share of the data, and trains only when it is there.
#[test]
fn newcomers_bring_data_of_their_own() {
    let world = world("always", 0.0, 0.1, 0.0);
    let params = ExperimentParams { rounds: 20, seeds: 1, world, ..small(&["oldest-first"]) };
    let experiment = experiment(params);
    assert_eq!(experiment.everyone(), 36);
    let context = experiment.context(0).unwrap();
    assert_eq!((context.samples.len(), context.setting.clients()), (36, 12));
    assert_eq!(context.samples.iter().sum::<u64>(), 480);
    let record = &play_in_memory(&experiment, 1)[0];
    for log in logs(record) {
        let joined = 12 + (1.2 * log.round as f64) as u32;
        assert_eq!(log.available, joined, "round {}", log.round);
        assert!(log.clients.iter().all(|&client| client < joined));
    }
    let clients = &record.training.as_ref().unwrap().clients;
    assert!(clients.iter().zip(&context.samples).all(|(client, &size)| client.samples == size));
    assert!(clients[20].selections > 0 && clients[35].selections == 0);
}
