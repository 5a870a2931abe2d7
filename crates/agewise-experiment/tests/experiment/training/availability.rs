//! Availability that follows the seconds of a clock, or what clients are.

use super::worlds::{Dir, experiment, logs, made_up, play_in_memory, small, trained};
use agewise_core::{Draws, PolicyVariant, Seed, Stream};
use agewise_experiment::{
    ClockParams, Experiment, ExperimentParams, RoundLog, SelectionRun, SelectionSpec, World,
};

/// The streams of the world, as its documentation has them.
const ONLINE: Stream = Stream::custom(16);
const TIME_ZONE: Stream = Stream::custom(20);

fn draw(seed: Seed, stream: Stream, round: u64, client: u32) -> f64 {
    Draws::new(seed, stream, round).of(u64::from(client)).unit()
}

/// 12 clients of which 4 work, each for some hundredths of a second.
fn timed(policies: &[&str], availability: &str) -> ExperimentParams {
    let mut params = trained(small(policies), |training| training.speeds = "lognormal:1".into());
    params.world.availability = availability.to_string();
    let links = "lognormal:0.5@0.05,0.02".to_string();
    let clock = ClockParams { links, ..ClockParams::default() };
    ExperimentParams { clock: Some(clock), rounds: 40, seeds: 2, ..params }
}

/// Everything that follows from who is online in which slot, computed again slot by slot: who can be selected, how long
/// the clock waits where no client is there, who goes offline while it works, and when the round ends. Returns how many
/// slots it waited, and how many clients went offline.
fn check_slots(
    availability: &str,
    slot: f64,
    is_online: fn(Seed, u64, u32) -> bool,
) -> (usize, usize) {
    let experiment = experiment(timed(&["random", "oldest-first/deadline:0.7"], availability));
    let (mut waited, mut left) = (0, 0);
    for record in play_in_memory(&experiment, 2) {
        let context = experiment.context(record.id.seed).unwrap();
        let times = context.times.as_ref().unwrap();
        let schedule = experiment.variant(record.id).unwrap().schedule().to_string();
        let mut fleet: Vec<f64> = (0..12).map(|client| times.turnaround(client)).collect();
        fleet.sort_by(f64::total_cmp);
        // 70% of 12 clients, rounded up.
        let limit = if schedule == "sync" { f64::INFINITY } else { fleet[8] };
        let mut now = 0.0;
        for log in logs(&record) {
            let mut number = (0..100_000u64).find(|&next| (next + 1) as f64 * slot > now).unwrap();
            let online = |number| -> Vec<u32> {
                (0..12).filter(|&client| is_online(context.seed, number, client)).collect()
            };
            let mut begin = now;
            while online(number).is_empty() {
                (number, begin) = (number + 1, (number + 1) as f64 * slot);
                waited += 1;
            }
            assert_eq!(log.available as usize, online(number).len(), "{}", log.round);
            let asked = log.asked();
            assert!(asked.iter().all(|client| online(number).contains(client)));
            assert_eq!(asked.len(), online(number).len().min(4));
            let end = |client: u32| {
                let done = begin + times.turnaround(client);
                let mut borders = (number + 1..).map(|next| (next, next as f64 * slot));
                let gone = borders.find_map(|(next, border)| {
                    let goes = border < done && !is_online(context.seed, next, client);
                    (border >= done || goes).then_some(goes.then_some(border))
                });
                gone.unwrap().map_or((done - begin, true), |border| (border - begin, false))
            };
            let last = asked.iter().map(|&client| end(client).0).fold(0.0, f64::max).min(limit);
            for &client in &asked {
                let (seconds, delivers) = end(client);
                let fate = (log.clients.contains(&client), log.dropped.contains(&client));
                let late = seconds > last + 1e-9;
                assert_eq!(fate, (delivers && !late, !delivers && !late), "{client}");
                left += usize::from(fate.1);
            }
            let told = log.clock.as_ref().unwrap().costs.seconds;
            assert!((told - (begin - now + last)).abs() < 1e-9, "{told}");
            now += told;
        }
    }
    (waited, left)
}

#[test]
fn slots_decide_who_is_there() {
    let (waited, left) = check_slots("bernoulli:0.15,0.06s", 0.06, |seed, slot, client| {
        draw(seed, ONLINE, slot, client) < 0.15
    });
    assert!(waited > 0 && left > 0, "{waited} {left}");
}

#[test]
fn days_have_slots_of_an_hour() {
    let (waited, left) = check_slots("diurnal:2.4s,1", 2.4 / 24.0, |seed, slot, client| {
        let day = slot as f64 / 24.0 + draw(seed, TIME_ZONE, 0, client);
        let chance = 1.0 - 0.5 * (1.0 + (std::f64::consts::TAU * day).cos());
        draw(seed, ONLINE, slot, client) < chance
    });
    // Every client has a night of its own, so that someone is always there.
    assert_eq!(waited, 0);
    assert!(left > 0);
}

/// Under one seed the same clients are there at the same second, whatever the schedule and the policy.
#[test]
fn threads_and_interruptions_change_nothing() {
    const VARIANTS: [&str; 8] = [
        "oldest-first",
        "random/deadline:0.6",
        "age-herding/over-select:1.5",
        "markov-optimal",
        "random/buffered:3",
        "oldest-first/async",
        "oort/buffered:2",
        "age-herding/async",
    ];
    for availability in ["bernoulli:0.4,0.05s", "on-off:0.2s,0.3s", "slow-less:0.2,0.05s"] {
        let mut params = timed(&VARIANTS, availability);
        params.world.dropout = 0.1;
        (params.world.join, params.world.leave) = (0.02, 0.01);
        let experiment = experiment(ExperimentParams { seeds: 1, rounds: 12, ..params });
        let whole = Dir::new(&experiment);
        let records = whole.play(&experiment, 2);
        assert!(records.iter().all(|record| record.finished));
        for (threads, rounds) in [(1, 17), (3, 61)] {
            let broken = Dir::new(&experiment);
            broken.play_until(&experiment, threads, rounds);
            broken.play_until(&experiment, 1, 23);
            assert_eq!(broken.play(&experiment, threads), records, "{availability}");
            assert_eq!(broken.files(), whole.files());
        }
    }
}

/// Without rounds a client that goes offline has worked in vain until then, and free places are filled when clients come.
#[test]
fn places_wait_for_clients() {
    let experiment =
        experiment(timed(&["random/buffered:3", "oldest-first/async"], "on-off:0.1s,0.9s"));
    for record in play_in_memory(&experiment, 2) {
        let times = experiment.context(record.id.seed).unwrap().times.as_ref().unwrap();
        let (mut gone, mut idle) = (0, 0);
        for log in logs(&record) {
            let clock = log.clock.as_ref().unwrap();
            for (client, &seconds) in log.asked().into_iter().zip(&clock.worked) {
                let whole = times.turnaround(client) as f32;
                if log.clients.contains(&client) {
                    assert!((seconds - whole).abs() <= 1e-5 * whole.max(1.0));
                } else {
                    assert!(log.dropped.contains(&client) && seconds < whole);
                    gone += 1;
                }
            }
            // Fewer seconds of work than time passed: some of it without anyone at work.
            idle += usize::from(clock.costs.client_seconds < clock.costs.seconds);
        }
        assert!(gone > 5 && idle > 5, "{gone} {idle}");
        // One of ten clients is there: far fewer than places.
        let asks = logs(&record).iter().flat_map(|log| &log.asks);
        assert!(asks.clone().all(|ask| !ask.clients.is_empty() && ask.clients.len() <= 4));
        assert!(asks.count() > logs(&record).len());
    }
}

/// The probability of each client, by comparing all with all.
fn chances(values: &[f64], least: f64) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let alike = values.iter().filter(|other| *other == value).count() as f64;
        below + (alike - 1.0) / 2.0
    };
    let last = (values.len() - 1) as f64;
    values.iter().map(|value| least + (1.0 - least) * rank(value) / last).collect()
}

#[test]
fn availability_follows_data_or_speed() {
    for (availability, by_data) in [("more-data-first:0.1", true), ("slow-less:0.1", false)] {
        let experiment = experiment(timed(&["random", "random/buffered:2"], availability));
        for record in play_in_memory(&experiment, 2) {
            let context = experiment.context(record.id.seed).unwrap();
            let times = context.times.as_ref().unwrap();
            let values: Vec<f64> = (0..12u32)
                .map(|client| {
                    let samples = context.samples[client as usize] as f64;
                    // All train as many samples in a round.
                    if by_data { samples } else { 1.0 / times.training(client) }
                })
                .collect();
            let chances = chances(&values, 0.1);
            let online = |log: &RoundLog, client: u32| {
                draw(context.seed, ONLINE, log.round, client) < chances[client as usize]
            };
            for log in logs(&record) {
                let there = (0..12).filter(|&client| online(log, client)).count();
                assert_eq!(log.available as usize, there, "{availability}, {}", log.round);
                let mut asked = log.asks.iter().flat_map(|ask| ask.clients.iter().copied());
                assert!(asked.all(|client| online(log, client)));
                let in_rounds = log.asks.is_empty();
                assert!(!in_rounds || log.asked().iter().all(|&client| online(log, client)));
            }
        }
    }
}

/// Selection alone knows sizes: the cohorts are of those that are there, and full where there are enough of them.
#[test]
fn selection_alone_follows_data_too() {
    for policy in ["random", "oldest-first", "markov-optimal"] {
        let sizes: Vec<f64> = (1..=40).map(|client| f64::from(client % 13)).collect();
        let params = ExperimentParams {
            clients: 40,
            cohort: 5,
            rounds: 200,
            policies: vec![policy.to_string()],
            size_list: Some(sizes.iter().map(|size| size + 1.0).collect()),
            ..ExperimentParams::default()
        };
        let mut params = params;
        params.world.availability = "more-data-first:0.05".to_string();
        let experiment = Experiment::new(params, &[]).unwrap();
        let chances = chances(&sizes, 0.05);
        let spec = experiment.selection(experiment.runs()[0]).unwrap();
        let seed = spec.world.seed;
        let mut run = SelectionRun::new(spec).unwrap();
        for round in 0..200 {
            let row = run.play().unwrap();
            let online =
                |client: &u32| draw(seed, ONLINE, round, *client) < chances[*client as usize];
            let there = (0..40).filter(online).count() as u64;
            assert_eq!(row.available, Some(there));
            let cohort = run.last_cohort();
            assert!(cohort.iter().all(online), "{policy}, {round}");
            if policy != "markov-optimal" {
                assert_eq!(cohort.len() as u64, there.min(5));
            }
        }
    }
}

#[test]
fn availability_that_follows_what_is_not_there_is_refused() {
    let error = |params: ExperimentParams| match Experiment::with_data(params, made_up()) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let mut params = timed(&["random"], "diurnal:86400s,0.8");
    assert_eq!(error(params.clone()), "");
    params.clock = None;
    let text = error(params);
    assert!(
        text.starts_with("availability = diurnal:86400s,0.8") && text.contains("[clock]"),
        "{text}"
    );
    // A client that works for longer than a million slots is asked about each of them.
    let text = error(timed(&["random"], "bernoulli:0.5,0.001s"));
    assert_eq!(text, "");
    let mut slow = timed(&["random"], "bernoulli:0.5,0.001s");
    slow.training.as_mut().unwrap().speeds = "lognormal:1@0.001".to_string();
    let text = error(slow);
    assert!(
        text.starts_with("availability = bernoulli:0.5,0.001s") && text.contains("slots"),
        "{text}"
    );
    let alone = |availability: &str| {
        let mut params = ExperimentParams { rounds: 10, ..ExperimentParams::default() };
        params.world.availability = availability.to_string();
        Experiment::new(params, &[]).err().unwrap().to_string()
    };
    assert!(alone("slow-less:0.5").contains("--speeds"));
    assert!(alone("on-off:10s,10s").contains("a clock"));
    // Nor is it ignored where a run is made without an experiment.
    let availability = "on-off:10s,10s".parse().unwrap();
    let setting = agewise_core::SettingParams::new(10, 2, agewise_core::MaxAge::Auto);
    let spec = SelectionSpec {
        setting: setting.check().unwrap(),
        size_distribution: "equal".parse().unwrap(),
        policy: PolicyVariant::parse("random", agewise_core::Start::default(), None).unwrap(),
        world: World { availability, ..World::calm(Seed(1)) },
        rounds: 5,
        warmup: 0,
        calibrate: false,
    };
    let refused = SelectionRun::new(spec).err().unwrap();
    assert_eq!(refused.field(), "availability");
}
