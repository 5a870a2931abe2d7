//! Simulated time: what rounds take, who is late, and what a target costs.

use super::worlds::{
    Dir, PARAMETERS, experiment, field, logs, made_up, play, play_in_memory, small, trained,
};
use agewise_experiment::{
    ClockParams, Experiment, ExperimentParams, Measure, Record, Results, RoundLog, Summary, Unit,
};

const MODEL: u64 = 4 * PARAMETERS as u64;

/// Links on which the little model takes about as long as training.
fn clock() -> ClockParams {
    ClockParams { links: "lognormal:0.5@0.05,0.02".to_string(), ..ClockParams::default() }
}

fn timed(params: ExperimentParams, clock: ClockParams) -> ExperimentParams {
    let params = trained(params, |training| training.speeds = "lognormal:1".to_string());
    ExperimentParams { clock: Some(clock), ..params }
}

/// Schedules, and what may happen to clients under each of them.
fn restless(policies: &[&str]) -> ExperimentParams {
    let mut params = timed(small(policies), ClockParams { power: Some(3.0), ..clock() });
    params.world.dropout = 0.2;
    params.world.availability = "on-off:5,1".to_string();
    (params.world.join, params.world.leave) = (0.05, 0.02);
    params
}

const SCHEDULES: [&str; 6] = [
    "oldest-first",
    "oldest-first/deadline:0.6",
    "random/over-select:1.5",
    "oort/deadline:0.5",
    "age-herding/over-select:1.3",
    "markov-optimal/deadline:0.8",
];

#[test]
fn a_synchronous_run_is_the_same_with_and_without_a_clock() {
    let policies = ["random", "oldest-first", "markov-optimal", "age-herding", "power-of-choice"];
    let plain = trained(small(&policies), |training| training.speeds = "lognormal:1".to_string());
    let with_clock = timed(small(&policies), clock());
    let [(plain, plain_models), (with_clock, models)] =
        [plain, with_clock].map(|params| play(&experiment(params), 2));
    assert_eq!(plain_models, models);
    for (one, other) in plain.iter().zip(&with_clock) {
        let without = |log: &RoundLog| RoundLog { clock: None, ..log.clone() };
        let other: Vec<RoundLog> = logs(other).iter().map(without).collect();
        assert_eq!(logs(one), other, "{:?}", one.id);
        assert!(logs(one).iter().all(|log| log.clock.is_none()));
    }
}

/// Every round again from the times of the clients, in the plainest way.
#[test]
fn rounds_take_what_their_clients_take() {
    let experiment = experiment(timed(small(&SCHEDULES), clock()));
    for record in play_in_memory(&experiment, 2) {
        let variant = experiment.variant(record.id).unwrap();
        let times = experiment.context(record.id.seed).unwrap().times.as_ref().unwrap();
        let turnaround = |client: &u32| times.turnaround(*client);
        let mut fleet: Vec<f64> = (0..12).map(|client| turnaround(&client)).collect();
        fleet.sort_by(f64::total_cmp);
        let schedule = variant.schedule().to_string();
        for log in logs(&record) {
            let probes = log.probed > 0 || variant.name().starts_with("age-herding");
            let costs = &log.clock.as_ref().unwrap().costs;
            let slowest = log.clients.iter().map(turnaround).fold(0.0, f64::max);
            assert!(log.dropped.is_empty());
            match schedule.as_str() {
                "sync" => assert!(log.late.is_empty() && log.clients.len() == 4),
                "over-select:1.5" | "over-select:1.3" => {
                    assert_eq!(log.clients.len(), 4);
                    // 1.5 and 1.3 times 4, rounded up.
                    assert_eq!(log.late.len(), 2);
                    assert!(probes || log.late.iter().all(|client| turnaround(client) >= slowest));
                }
                deadline => {
                    let share: f64 = deadline.trim_start_matches("deadline:").parse().unwrap();
                    let limit = fleet[(12.0 * share).ceil() as usize - 1];
                    assert!(log.clients.iter().all(|client| turnaround(client) <= limit));
                    assert!(log.late.iter().all(|client| turnaround(client) > limit));
                    if !log.late.is_empty() {
                        assert_eq!(costs.seconds, limit);
                    }
                }
            }
            if !probes && (log.late.is_empty() || schedule.starts_with("over")) {
                assert_eq!(costs.seconds, slowest, "{schedule}, round {}", log.round);
            }
            if probes {
                continue;
            }
            let asked = log.asked();
            assert_eq!(costs.bytes_down, MODEL * asked.len() as u64);
            let work = |client: &u32| turnaround(client).min(costs.seconds);
            let worked: f64 = asked.iter().map(work).sum();
            assert!((costs.client_seconds - worked).abs() < 1e-9 * worked);
            let wasted: f64 = log.late.iter().map(work).sum();
            assert!((costs.wasted_seconds - wasted).abs() <= 1e-9 * worked);
            let sent = MODEL * log.clients.len() as u64;
            let most = MODEL * asked.len() as u64;
            assert!((sent..=most).contains(&costs.bytes_up));
            assert!(!log.late.is_empty() || costs.bytes_up == sent);
        }
    }
}

#[test]
fn who_is_late_keeps_its_age_and_fails() {
    let params = timed(small(&["oldest-first/deadline:0.5"]), clock());
    let experiment = experiment(ExperimentParams { rounds: 20, seeds: 1, ..params });
    let record = play_in_memory(&experiment, 1).pop().unwrap();
    let logs = logs(&record);
    let counted = |client| logs.iter().filter(|log| log.clients.contains(&client)).count() as u32;
    let late: Vec<u32> = logs.iter().flat_map(|log| log.late.clone()).collect();
    assert!(!late.is_empty());
    for (client, known) in (0u32..).zip(&record.training.as_ref().unwrap().clients) {
        assert_eq!(known.selections, counted(client));
        // Half of all clients meet a deadline at the median, and the others never do.
        assert_eq!(late.contains(&client), known.selections == 0);
    }
    // Back-off: after the second failure in a row a client waits.
    let asks = |client| logs.iter().filter(|log| log.late.contains(client)).count();
    assert!(late.iter().all(|client| asks(client) < 8));
    // From the first ages on, which are 0, 1 and 2.
    let longest = record.load.as_ref().unwrap().longest_wait;
    assert!((20..=22).contains(&longest), "{longest}");
}

/// Six are asked and the first four count: the two others were surplus, keep their age, and are asked again at once,
/// however often that happens. Had they failed, they would have to wait from the fourth time on.
#[test]
fn surplus_has_not_failed() {
    let params = timed(small(&["oldest-first/over-select:1.5"]), clock());
    let experiment = experiment(ExperimentParams { rounds: 20, seeds: 1, ..params });
    let record = play_in_memory(&experiment, 1).pop().unwrap();
    let logs = logs(&record);
    assert!(logs.iter().all(|log| log.late.len() == 2));
    for pair in logs.windows(2) {
        let asked = pair[1].asked();
        assert!(pair[0].late.iter().all(|client| asked.contains(client)), "{}", pair[1].round);
    }
}

#[test]
fn threads_and_interruptions_change_nothing() {
    let experiment = experiment(ExperimentParams { seeds: 1, ..restless(&SCHEDULES) });
    let whole = Dir::new(&experiment);
    let records = whole.play(&experiment, 2);
    assert!(records.iter().all(|record| record.finished));
    let dropped: usize = records.iter().flat_map(logs).map(|log| log.dropped.len()).sum();
    assert!(dropped > 0);
    for (threads, rounds) in [(1, 5), (3, 11)] {
        let broken = Dir::new(&experiment);
        broken.play_until(&experiment, threads, rounds);
        broken.play_until(&experiment, 1, 9);
        assert_eq!(broken.play(&experiment, threads), records);
        assert_eq!(broken.files(), whole.files());
    }
}

/// Whoever drops out has worked for a part of its time, and what it got and sent is counted.
#[test]
fn dropping_out_costs_a_part_of_the_work() {
    let mut params = timed(small(&["random"]), ClockParams { power: Some(2.0), ..clock() });
    params.world.dropout = 0.5;
    let experiment = experiment(ExperimentParams { rounds: 40, seeds: 1, ..params });
    let record = play_in_memory(&experiment, 1).pop().unwrap();
    let times = experiment.context(0).unwrap().times.as_ref().unwrap();
    let (mut worked, mut whole) = (0.0, 0.0);
    for log in logs(&record) {
        let clock = log.clock.as_ref().unwrap();
        for (client, &seconds) in log.asked().iter().zip(&clock.worked) {
            let all = times.turnaround(*client);
            if log.dropped.contains(client) {
                assert!(f64::from(seconds) <= all);
                (worked, whole) = (worked + f64::from(seconds), whole + all);
            } else {
                assert_eq!(seconds, all as f32);
            }
        }
        // 2 watts, whatever a client does.
        let joules = clock.costs.joules.unwrap();
        assert!((joules - 2.0 * clock.costs.client_seconds).abs() < 1e-9 * joules);
        assert!(clock.costs.bytes_up < MODEL * log.selected() || log.dropped.is_empty());
    }
    // Uniform moments: half of the work, within five standard errors of some 80 of them.
    assert!((worked / whole - 0.5).abs() < 0.2, "{}", worked / whole);
}

/// Before the first round `age-herding` asks everyone for a step; that takes as long as the slowest of them.
#[test]
fn probes_take_time_and_bytes() {
    let experiment = experiment(timed(small(&["age-herding", "power-of-choice"]), clock()));
    let records = play_in_memory(&experiment, 1);
    let times = experiment.context(0).unwrap().times.as_ref().unwrap();
    let first = logs(&records[0])[0].clock.as_ref().unwrap().costs;
    assert_eq!(first.bytes_down, 12 * MODEL);
    let slowest = (0..12).map(|client| times.download(client)).fold(0.0, f64::max);
    assert!(first.seconds > slowest, "{} {slowest}", first.seconds);
    for log in logs(&records[1]) {
        let down = log.clock.as_ref().unwrap().costs.bytes_down;
        assert_eq!(down, MODEL * (log.selected() + u64::from(log.probed)));
    }
}

fn summary(experiment: &Experiment, records: &[Record]) -> Summary {
    let times = vec![None; experiment.variants().len()];
    let results = Results { experiment: experiment.clone(), records: records.to_vec(), times };
    results.summary().unwrap()
}

#[test]
fn targets_are_told_in_every_unit() {
    let clock = ClockParams { unit: Unit::Seconds, power: Some(3.0), ..clock() };
    let params = timed(small(&["random", "random/over-select:1.5", "oldest-first"]), clock);
    let experiment = experiment(ExperimentParams { seeds: 4, rounds: 12, ..params });
    let records = play_in_memory(&experiment, 2);
    let summary = summary(&experiment, &records);
    assert_eq!(summary.unit, Some(Unit::Seconds));
    assert_eq!(summary.main_measure(), Some(Measure::to_target(Unit::Seconds, 0.7, false)));
    for unit in Unit::ALL {
        for (place, policy) in summary.policies.iter().enumerate() {
            let of_runs = records.iter().filter(|record| record.id.variant == place);
            let each = of_runs.filter_map(|record| {
                let training = record.training.as_ref().unwrap();
                let rounds = training.rounds_to(0.4)? as usize;
                let mut sum = 0.0;
                for log in &training.logs[..rounds] {
                    let costs = log.clock.as_ref().unwrap().costs;
                    sum += match unit {
                        Unit::Rounds => 1.0,
                        Unit::Seconds => costs.seconds,
                        Unit::Bytes => (costs.bytes_down + costs.bytes_up) as f64,
                        Unit::BytesDown => costs.bytes_down as f64,
                        Unit::BytesUp => costs.bytes_up as f64,
                        Unit::ClientSeconds => costs.client_seconds,
                        Unit::Joules => costs.joules.unwrap(),
                    };
                }
                Some(sum)
            });
            let mut each: Vec<f64> = each.collect();
            each.sort_by(f64::total_cmp);
            assert_eq!(each.len(), 4);
            let told = policy.cost_to(unit, 0.4).unwrap().rounds;
            let median = f64::midpoint(each[1], each[2]);
            assert!((told.median.unwrap() - median).abs() < 1e-9 * median, "{unit}");
            let pair = summary.pair(Measure::to_target(unit, 0.4, false), &policy.policy, "random");
            assert_eq!(pair.is_some(), place > 0, "{unit}");
        }
    }
    let over = &summary.policies[1];
    assert_eq!(over.policy, "random/over-select:1.5");
    assert!(over.means["share_wasted"].mean > 0.0);
    assert_eq!(summary.policies[0].means["share_wasted"].mean, 0.0);
    assert!(over.means["longest_wait_seconds"].mean > over.means["mean_interval_seconds"].mean);
}

/// The first number of a pair is what was spent until the target, or all of it.
#[test]
fn a_run_that_never_arrives_counts_with_all_that_it_cost() {
    let params = timed(small(&["random"]), clock());
    let experiment = experiment(trained(params, |training| training.targets = vec![0.4, 1.0]));
    let record = play_in_memory(&experiment, 1).pop().unwrap();
    let training = record.training.as_ref().unwrap();
    let all: f64 = logs(&record).iter().map(|log| log.clock.as_ref().unwrap().costs.seconds).sum();
    let spent = training.cost_to(1.0, Unit::Seconds).unwrap();
    assert!(!spent.reached && (spent.amount - all).abs() < 1e-9);
    assert!(training.cost_to(0.4, Unit::Seconds).unwrap().reached);
    assert_eq!(training.cost_to(0.4, Unit::Joules), None);
}

#[test]
fn speeds_and_links_can_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("devices.csv");
    let row = |client: u32| format!("{},{},{}\n", 100 * (client + 1), 0.05, 0.02);
    let rows: String = (0..12).map(row).collect();
    std::fs::write(&file, format!("speed,down,up\n{rows}")).unwrap();
    let path = file.display().to_string();
    let mut params = timed(small(&["random"]), clock());
    params.training.as_mut().unwrap().speeds = format!("{path}:speed");
    params.clock.as_mut().unwrap().links = format!("{path}:down,up");
    params.training.as_mut().unwrap().data = "digits".to_string();
    let experiment = Experiment::new(params, &[]).unwrap();
    std::fs::remove_file(&file).unwrap();
    // What was read is in the configuration, so the file is not needed again.
    let again = Experiment::new(experiment.params().clone(), &[]).unwrap();
    let times = |experiment: &Experiment| experiment.context(0).unwrap().times.clone().unwrap();
    assert_eq!(times(&experiment), times(&again));
    let samples = 15.0;
    for client in 0..12 {
        let speed = 100.0 * f64::from(client + 1);
        assert!((times(&again).training(client) - samples / speed).abs() < 1e-12);
    }
    let parameters = experiment.task().unwrap().parameters() as f64;
    assert!((times(&again).download(3) - 32.0 * parameters / 5e4).abs() < 1e-9);
}

/// A change of the clock, and words of the error that it causes.
type Case = (fn(&mut ClockParams), [&'static str; 2]);

#[test]
fn bad_conditions_are_found_before_the_run() {
    let named = |change: &dyn Fn(&mut ExperimentParams)| {
        let mut params = timed(small(&["random"]), clock());
        change(&mut params);
        let error = Experiment::with_data(params, made_up()).err();
        error.map_or(String::new(), |error| error.to_string())
    };
    let set = |change: fn(&mut ClockParams)| {
        named(&move |params: &mut ExperimentParams| change(params.clock.as_mut().unwrap()))
    };
    assert_eq!(set(|_| ()), "");
    let cases: [Case; 8] = [
        (|c| c.links = "lognormal:-1".into(), ["links = lognormal:-1", "DOWN,UP"]),
        (|c| c.links = "phones@0,1".into(), ["links = phones@0,1", "two medians"]),
        (|c| c.schedule = "deadline:0.001s".into(), ["schedule = deadline:0.001s", "the fastest"]),
        (|c| c.schedule = "over-select:4".into(), ["schedule = over-select:4", "at most 12"]),
        (|c| c.schedule = "soon".into(), ["schedule = soon", "over-select:FACTOR"]),
        (|c| c.power = Some(-1.0), ["power = -1", "watts"]),
        (|c| c.link_power = Some(1.0), ["link_power = 1", "power beside it"]),
        (|c| c.unit = Unit::Joules, ["unit = joules", "power beside it"]),
    ];
    for (change, words) in cases {
        let error = set(change);
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let policy = |text: &str| {
        let text = text.to_string();
        named(&move |params: &mut ExperimentParams| {
            params.policies[0].clone_from(&text);
            params.baseline = None;
        })
    };
    assert!(policy("random/soon").contains("schedule = soon"));
    assert!(policy("random/deadline:0.001s").contains("the fastest of the 12 clients"));
    let untrained = ExperimentParams {
        training: None,
        clock: Some(ClockParams::default()),
        ..ExperimentParams::default()
    };
    let error = Experiment::new(untrained, &[]).err().unwrap().to_string();
    assert!(error.starts_with("clock = a table"), "{error}");
}

/// Policies that look at durations see the whole turnaround where there is a clock.
#[test]
fn links_reach_who_looks_at_durations() {
    let with_links = |links: &str| {
        let clock = ClockParams { links: links.to_string(), ..ClockParams::default() };
        let params = ExperimentParams { clock: Some(clock), rounds: 12, ..field() };
        play_in_memory(&experiment(params), 2)
    };
    let cohorts = |records: &[Record], variant| {
        let of = records.iter().find(|record| record.id.variant == variant).unwrap();
        logs(of).iter().map(|log| log.clients.clone()).collect::<Vec<_>>()
    };
    let [none, slow] = ["none", "lognormal:2@0.01,0.01"].map(with_links);
    // The second one of the field is `oort`.
    assert_ne!(cohorts(&none, 1), cohorts(&slow, 1));
    assert_eq!(cohorts(&none, 2), cohorts(&slow, 2));
}
