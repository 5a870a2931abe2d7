//! Aggregation: updates in memory against updates in files, and both against the definitions written out.

mod rounds;

use agewise_core::{Draws, Error, Result, Seed, Stream};
use agewise_train::aggregation::{
    Aggregation, AggregationParams, AggregationRule as Rule, Aggregator, Contribution, MaxNorm,
    MemoryUpdates, Rejected, ServerRule, UpdateSource, Verdict,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand_core::Rng;

/// What becomes of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Good,
    /// Did not come.
    Missing,
    /// Has a value that is not a number.
    Poisoned,
    /// Cannot be read from this parameter on.
    CutOff(usize),
    /// Can be read so many times, and not after that.
    Fading(usize),
}

/// Updates in files, some of which are bad.
#[derive(Debug, Clone)]
struct Shelf {
    updates: Vec<(Outcome, Vec<f32>)>,
    /// How often each was read from its first parameter on.
    begun: Vec<usize>,
    /// The longest piece that was asked for.
    longest: usize,
}

impl Shelf {
    fn new(updates: Vec<(Outcome, Vec<f32>)>) -> Self {
        Self { begun: vec![0; updates.len()], updates, longest: 0 }
    }

    fn good(updates: &[Vec<f32>]) -> Self {
        Self::new(updates.iter().map(|update| (Outcome::Good, update.clone())).collect())
    }

    /// The members, with these weights.
    fn offers(&self, weights: &[f64]) -> Vec<Contribution> {
        let offer = |((client, &weight), (outcome, _)): ((u32, &f64), &(Outcome, _))| {
            let missing = (*outcome == Outcome::Missing).then(|| "too late".to_string());
            Contribution { client, weight, missing }
        };
        (100..).zip(weights).zip(&self.updates).map(offer).collect()
    }
}

impl UpdateSource for Shelf {
    fn read(&mut self, member: usize, first: usize, target: &mut [f32]) -> Result<()> {
        let (outcome, update) = &self.updates[member];
        let end = first + target.len();
        self.longest = self.longest.max(target.len());
        self.begun[member] += usize::from(first == 0);
        target.copy_from_slice(&update[first..end]);
        let readable = match *outcome {
            Outcome::Good => true,
            Outcome::Missing => unreachable!("a missing update was asked for"),
            Outcome::Poisoned => {
                target[target.len() - 1] = f32::NAN;
                true
            }
            Outcome::CutOff(at) => end <= at,
            Outcome::Fading(times) => self.begun[member] <= times || end < update.len(),
        };
        if readable { Ok(()) } else { Err(Error::new("file", "cut off", "all of it")) }
    }
}

fn config(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(5);
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// What becomes of a model.
fn combined(
    params: AggregationParams,
    shelf: &mut Shelf,
    weights: &[f64],
    memory: usize,
    global: &[f32],
) -> (Vec<f32>, Vec<Verdict>) {
    let mut moved = global.to_vec();
    let cohort = shelf.offers(weights);
    let mut aggregator = params.build(global.len()).unwrap();
    let verdicts = aggregator.aggregate(&cohort, shelf, memory, &mut moved).unwrap();
    (moved, verdicts)
}

/// The updates that count after clipping, as the definition says.
fn clipped(shelf: &Shelf, clip_norm: f64, global: &[f32]) -> Vec<Vec<f32>> {
    let good = shelf.updates.iter().filter(|(outcome, _)| *outcome == Outcome::Good);
    let clip = |(_, update): &(Outcome, Vec<f32>)| {
        let ways = update.iter().zip(global).map(|(&new, &old)| f64::from(new) - f64::from(old));
        let norm = ways.clone().map(|way| way * way).sum::<f64>().sqrt();
        if clip_norm == 0.0 || norm <= clip_norm {
            return update.clone();
        }
        let factor = (clip_norm / norm).min(1.0);
        ways.zip(global).map(|(way, &old)| (f64::from(old) + way * factor) as f32).collect()
    };
    good.map(clip).collect()
}

/// The weighted mean in the order of the cohort, in 32 bits, and a step of the server towards it: the model and what the
/// server remembers. Where anything would not be finite nothing changes.
fn mean_by_definition(
    server: ServerRule,
    shelf: &Shelf,
    weights: &[f64],
    global: &[f32],
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let moments = match server {
        ServerRule::Average => 0,
        ServerRule::Momentum { .. } => 1,
        ServerRule::Adam { .. } => 2,
    };
    let unchanged = (global.to_vec(), vec![vec![0.0; global.len()]; moments]);
    let (mut offered, mut accepted, mut sum) = (0.0, 0.0, vec![0.0f32; global.len()]);
    let counted = shelf.updates.iter().zip(weights).filter(|(_, weight)| **weight >= 0.0);
    for ((outcome, update), &weight) in counted {
        offered += weight;
        if *outcome == Outcome::Good {
            accepted += weight;
            sum.iter_mut().zip(update).for_each(|(sum, value)| *sum += weight as f32 * value);
        }
    }
    if accepted == 0.0 {
        return unchanged;
    }
    let (scale, rest) = ((offered / accepted) as f32, (1.0 - offered) as f32);
    let mut next = Vec::new();
    let mut state = vec![Vec::new(); moments];
    for (sum, old) in sum.into_iter().zip(global) {
        let average = scale * sum + rest * old;
        let change = average - old;
        match server {
            ServerRule::Average => next.push(average),
            // The moments were zero before the first round.
            ServerRule::Momentum { learning_rate, .. } => {
                state[0].push(change);
                next.push(old + learning_rate * change);
            }
            ServerRule::Adam { learning_rate, beta1, beta2, tau } => {
                let (first, second) = ((1.0 - beta1) * change, (1.0 - beta2) * change * change);
                next.push(old + learning_rate * first / (second.sqrt() + tau));
                state[0].push(first);
                state[1].push(second);
            }
        }
    }
    let finite = next.iter().chain(state.iter().flatten()).all(|value| value.is_finite());
    if finite { (next, state) } else { unchanged }
}

/// Trimmed mean or median as the definition says.
fn middle_by_definition(params: AggregationParams, updates: &[Vec<f32>], at: usize) -> f32 {
    let mut values: Vec<f64> = updates.iter().map(|update| f64::from(update[at])).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let kept = match params.rule {
        Rule::Median if count % 2 == 1 => return values[count / 2] as f32,
        Rule::Median => &values[count / 2 - 1..=count / 2],
        _ => {
            let cut = (params.trim * count as f64).floor() as usize;
            &values[cut..count - cut]
        }
    };
    (kept.iter().sum::<f64>() / kept.len() as f64) as f32
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Good),
        1 => Just(Outcome::Missing),
        1 => Just(Outcome::Poisoned),
        1 => (0usize..8).prop_map(Outcome::CutOff),
    ]
}

/// Values with ties, and some that are large.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![4 => -1.0f32..1.0, 2 => (-2i8..3).prop_map(f32::from), 1 => -1e30f32..1e30]
}

/// A global model and a cohort.
fn cohort() -> impl Strategy<Value = (Vec<f32>, Shelf, Vec<f64>)> {
    (1usize..8, 0usize..10).prop_flat_map(|(parameters, members)| {
        let model = || prop::collection::vec(value(), parameters);
        let updates = prop::collection::vec((outcome(), model()), members);
        let shelf = updates.prop_map(move |mut updates| {
            for (outcome, _) in &mut updates {
                // Every cut is inside of the update.
                if let Outcome::CutOff(at) = outcome {
                    *at %= parameters;
                }
            }
            Shelf::new(updates)
        });
        let weight = prop_oneof![8 => 0.0f64..0.4, 1 => Just(0.0), 1 => Just(f64::NAN)];
        (model(), shelf, prop::collection::vec(weight, members))
    })
}

fn server_rule() -> impl Strategy<Value = ServerRule> {
    prop_oneof![
        Just(ServerRule::Average),
        Just(ServerRule::Momentum { learning_rate: 0.7, beta: 0.9 }),
        Just(ServerRule::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 1e-3 }),
    ]
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn the_mean_is_that_of_the_definition(
        (global, mut shelf, weights) in cohort(), server in server_rule(), memory in 4usize..40,
    ) {
        let cohort = shelf.offers(&weights);
        let params = AggregationParams { server, ..AggregationParams::default() };
        let mut aggregator = params.build(global.len()).unwrap();
        let mut moved = global.clone();
        let verdicts = aggregator.aggregate(&cohort, &mut shelf, memory, &mut moved).unwrap();
        let (expected, state) = mean_by_definition(server, &shelf, &weights, &global);
        prop_assert_eq!(bits(&moved), bits(&expected));
        let found: Vec<Vec<u32>> =
            aggregator.state().into_iter().map(|(_, values)| bits(values)).collect();
        let state: Vec<Vec<u32>> = state.iter().map(|values| bits(values)).collect();
        prop_assert_eq!(found, state);
        prop_assert!(shelf.longest * 4 <= memory);
        let usable = |(outcome, weight): (Outcome, f64)| outcome == Outcome::Good && weight >= 0.0;
        let fates = shelf.updates.iter().map(|(outcome, _)| *outcome).zip(weights.iter().copied());
        let finite = verdicts.iter().any(std::result::Result::is_ok);
        for ((verdict, one), member) in verdicts.iter().zip(fates).zip(&cohort) {
            prop_assert_eq!(verdict.is_ok(), usable(one) && finite);
            if let Err(Rejected { client, .. }) = verdict {
                prop_assert_eq!(*client, member.client);
            }
        }
    }

    #[test]
    fn the_middle_is_that_of_the_definition(
        (global, mut shelf, weights) in cohort(),
        trimmed in any::<bool>(),
        trim in prop_oneof![Just(0.0), Just(0.25), 0.0f64..0.5],
        clip_norm in prop_oneof![Just(0.0), 0.1f64..5.0],
        extra in 0usize..300,
    ) {
        let rule = if trimmed { Rule::TrimmedMean } else { Rule::Median };
        let params = AggregationParams { rule, trim, clip_norm, ..AggregationParams::default() };
        let weights: Vec<f64> = weights.iter().map(|weight| weight.max(0.0)).collect();
        let came = shelf.updates.iter().filter(|(outcome, _)| *outcome != Outcome::Missing).count();
        let memory = 4 * came.max(1) + extra;
        let (moved, verdicts) = combined(params, &mut shelf, &weights, memory, &global);
        let kept = clipped(&shelf, clip_norm, &global);
        let expected: Vec<f32> = (0..global.len())
            .map(|at| if kept.is_empty() { global[at] } else { middle_by_definition(params, &kept, at) })
            .collect();
        prop_assert_eq!(bits(&moved), bits(&expected));
        prop_assert!(shelf.longest * 4 <= memory);
        for (verdict, (outcome, _)) in verdicts.iter().zip(&shelf.updates) {
            prop_assert_eq!(verdict.is_ok(), *outcome == Outcome::Good);
        }
    }

    #[test]
    fn the_clipped_mean_is_that_of_clipped_updates(
        (global, mut shelf, weights) in cohort(), clip_norm in 0.1f64..5.0, memory in 4usize..40,
    ) {
        let weights: Vec<f64> = weights.iter().map(|weight| weight.max(0.0)).collect();
        let mut short = clipped(&shelf, clip_norm, &global).into_iter();
        let mut clipped_shelf = shelf.clone();
        for (outcome, update) in &mut clipped_shelf.updates {
            if *outcome == Outcome::Good {
                *update = short.next().unwrap();
            }
        }
        let params = AggregationParams { clip_norm, ..AggregationParams::default() };
        let found = combined(params, &mut shelf, &weights, memory, &global);
        let plain = AggregationParams::default();
        let expected = combined(plain, &mut clipped_shelf, &weights, memory, &global);
        prop_assert_eq!(bits(&found.0), bits(&expected.0));
        prop_assert_eq!(found.1, expected.1);
    }
}

/// Numbers from -1 to 1.
fn models(count: usize, parameters: usize, case: u64) -> Vec<Vec<f32>> {
    let mut numbers = Draws::new(Seed(11), Stream::custom(902), case).sequence(0);
    let mut number = || (numbers.next_u64() >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
    (0..count).map(|_| (0..parameters).map(|_| number()).collect()).collect()
}

const RULES: [Rule; 3] = [Rule::Mean, Rule::TrimmedMean, Rule::Median];

#[test]
fn memory_changes_nothing() {
    let (members, parameters) = (7, 53);
    let updates = models(members, parameters, 0);
    let global = &models(1, parameters, 1)[0];
    let weights = vec![0.13; members];
    for rule in RULES {
        for clip_norm in [0.0, 4.0] {
            let params =
                AggregationParams { rule, clip_norm, trim: 0.2, ..AggregationParams::default() };
            let run =
                |memory| combined(params, &mut Shelf::good(&updates), &weights, memory, global);
            let expected = run(usize::MAX);
            assert_ne!(&expected.0, global);
            for memory in 4 * members..4 * members * (parameters + 3) {
                let found = run(memory);
                assert_eq!(bits(&found.0), bits(&expected.0), "{rule:?} in {memory} bytes");
                assert_eq!(found.1, expected.1);
            }
        }
    }
}

#[test]
fn cohorts_of_every_size() {
    // Longer than what is sorted at a time.
    let parameters = 150;
    let global = vec![0.0; parameters];
    for members in (1..=40).chain([63, 64, 65, 100, 129]) {
        let updates = models(members, parameters, members as u64);
        for rule in [Rule::TrimmedMean, Rule::Median] {
            let params = AggregationParams { rule, ..AggregationParams::default() };
            let mut shelf = Shelf::good(&updates);
            let weights = vec![0.0; members];
            let (found, _) = combined(params, &mut shelf, &weights, 440 * members, &global);
            let definition = |at| middle_by_definition(params, &updates, at);
            let expected: Vec<f32> = (0..parameters).map(definition).collect();
            assert_eq!(bits(&found), bits(&expected), "{rule:?} of {members}");
        }
    }
}

#[test]
fn memory_bounds_what_is_read() {
    let (members, parameters) = (20, 1_000);
    let mut shelf = Shelf::good(&models(members, parameters, 2));
    let weights = vec![0.05; members];
    let global = vec![0.0; parameters];
    let params = AggregationParams::default();
    combined(params, &mut shelf, &weights, 4 * parameters, &global);
    assert_eq!(shelf.begun, vec![1; members], "what fits is read once");
    shelf.longest = 0;
    combined(params, &mut shelf, &weights, 999, &global);
    assert_eq!(shelf.longest, 249);
    // Only those that came need a place.
    for outcome in [Outcome::Missing, Outcome::Good] {
        shelf.updates[3].0 = outcome;
        let members = shelf.offers(&weights);
        let median = AggregationParams { rule: Rule::Median, ..params };
        let mut moved = global.clone();
        let mut median = median.build(parameters).unwrap();
        let result = median.aggregate(&members, &mut shelf, 79, &mut moved);
        assert_eq!(result.is_ok(), outcome == Outcome::Missing);
        if let Err(error) = result {
            assert_eq!((error.field(), error.value()), ("memory", "79"));
            assert!(error.to_string().contains("80 bytes"), "{error}");
            assert_eq!(moved, global);
        } else {
            assert_ne!(moved, global);
        }
    }
    let mut mean = params.build(0).unwrap();
    assert_eq!(mean.aggregate(&[], &mut shelf, 3, &mut []).unwrap_err().field(), "memory");
    for rule in RULES {
        let mut aggregator = AggregationParams { rule, ..params }.build(0).unwrap();
        let none = aggregator.aggregate(&[], &mut shelf, 4, &mut []).unwrap();
        assert!(none.is_empty());
        // A model of no parameters is combined all the same.
        let members = shelf.offers(&weights);
        let all = aggregator.aggregate(&members, &mut shelf, 80, &mut []).unwrap();
        assert!(all.len() == 20 && all.iter().all(std::result::Result::is_ok));
    }
}

#[test]
fn an_update_that_goes_bad_later_leaves_no_trace() {
    let parameters = 30;
    let updates = models(6, parameters, 3);
    let global = vec![0.0; parameters];
    for rule in RULES {
        let params =
            AggregationParams { rule, clip_norm: 2.0, trim: 0.2, ..AggregationParams::default() };
        let mut shelf = Shelf::good(&updates);
        for member in [1, 4, 5] {
            shelf.updates[member].0 = Outcome::Fading(1);
        }
        // Mean: the weights of those that are left out are shared by the others.
        let (found, verdicts) = combined(params, &mut shelf, &[1.0 / 6.0; 6], 80, &global);
        let taken: Vec<bool> = verdicts.iter().map(std::result::Result::is_ok).collect();
        assert_eq!(taken, [true, false, true, true, false, false]);
        assert!(verdicts[4].as_ref().unwrap_err().to_string().contains("client 104: file"));
        for member in [1, 4, 5] {
            shelf.updates[member].0 = Outcome::Missing;
        }
        let (expected, _) = combined(params, &mut shelf, &[1.0 / 6.0; 6], 80, &global);
        assert_eq!(bits(&found), bits(&expected));
        for (outcome, _) in &mut shelf.updates {
            *outcome = Outcome::Fading(1);
        }
        shelf.begun.fill(0);
        let (found, verdicts) = combined(params, &mut shelf, &[1.0 / 6.0; 6], 80, &global);
        assert!(verdicts.iter().all(std::result::Result::is_err));
        assert_eq!(found, global, "nobody is left, nothing changes");
    }
}

#[test]
fn one_hostile_client_of_ten_does_not_get_far() {
    let honest = models(9, 200, 4);
    let global = vec![0.0; 200];
    for rule in [Rule::TrimmedMean, Rule::Median] {
        let params = AggregationParams { rule, ..AggregationParams::default() };
        let (calm, _) = combined(params, &mut Shelf::good(&honest), &[0.1; 9], 4_000, &global);
        for attack in [f32::MAX, f32::MIN, 1e6] {
            for place in 0..10 {
                let mut updates = honest.clone();
                updates.insert(place, vec![attack; 200]);
                let mut shelf = Shelf::good(&updates);
                let (found, verdicts) = combined(params, &mut shelf, &[0.1; 10], 4_000, &global);
                assert!(verdicts.iter().all(std::result::Result::is_ok));
                for (at, (found, calm)) in found.iter().zip(&calm).enumerate() {
                    let values = || honest.iter().map(|update| update[at]);
                    let least = values().fold(f32::MAX, f32::min);
                    let most = values().fold(f32::MIN, f32::max);
                    assert!((found - calm).abs() < most - least);
                    assert!((least..=most).contains(found));
                }
            }
        }
    }
    // Clipping alone bounds the mean: nobody moves it by more than weight times norm.
    let mut updates = vec![global.clone(); 9];
    updates.push(vec![f32::MAX; 200]);
    let params = AggregationParams { clip_norm: 3.0, ..AggregationParams::default() };
    let (found, _) = combined(params, &mut Shelf::good(&updates), &[0.1; 10], 4_000, &global);
    let norm = found.iter().map(|value| f64::from(value * value)).sum::<f64>().sqrt();
    assert!((norm - 0.3).abs() < 1e-6, "{norm}");
}

/// From the first round on an update that is many times as far away as most is left out, under every rule, and what was
/// learned of the others goes on from a file; without the bound it moves the mean.
#[test]
fn updates_that_are_far_away_are_left_out() {
    for text in ["mean(max_norm=auto)", "median(max_norm=auto)", "momentum+mean(max_norm=auto)"] {
        let rule: Aggregation = text.parse().unwrap();
        let plain: Aggregation = text.replace("(max_norm=auto)", "").parse().unwrap();
        let (mut bounded, mut others) = (rule.build(6).unwrap(), plain.build(6).unwrap());
        let (mut global, mut expected) = (vec![0.5; 6], vec![0.5; 6]);
        // Eight honest clients per round: the first rounds are within the warm-up, the last ones behind it.
        for round in 0..5 {
            let mut updates: Vec<Vec<f32>> = models(9, 6, round)
                .iter()
                .map(|model| global.iter().zip(model).map(|(&old, new)| old + 0.1 * new).collect())
                .collect();
            updates[3] = vec![1e30; 6];
            let mut shelf = Shelf::good(&updates);
            let cohort = shelf.offers(&[1.0 / 9.0; 9]);
            let verdicts = bounded.aggregate(&cohort, &mut shelf, 1 << 10, &mut global).unwrap();
            let rejected: Vec<_> = verdicts.into_iter().filter_map(Verdict::err).collect();
            assert_eq!(rejected.len(), 1, "{text}, round {round}: {rejected:?}");
            assert_eq!(rejected[0].client, 103);
            assert!(rejected[0].why.contains("from the global model, at most"), "{rejected:?}");
            shelf.updates[3].0 = Outcome::Missing;
            let cohort = shelf.offers(&[1.0 / 9.0; 9]);
            others.aggregate(&cohort, &mut shelf, 1 << 10, &mut expected).unwrap();
            assert_eq!(bits(&global), bits(&expected), "{text}, round {round}");
            let state = bounded.state();
            let norms = state.last().unwrap();
            // In the warm-up, which ends with 20 norms, what is left out has come and counts.
            let known = [9, 18, 27, 35, 43][round as usize];
            assert_eq!((norms.0, norms.1.len()), ("norms", 4 * known));
            let kept: Vec<_> =
                state.iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect();
            bounded = rule.build(6).unwrap();
            bounded.load_state(kept).unwrap();
        }
        let wrong = vec![("norms".to_string(), vec![0.5; 4])];
        assert!(rule.build(6).unwrap().load_state(wrong.clone()).is_err());
        let error = plain.build(6).unwrap().load_state(wrong).unwrap_err().to_string();
        assert!(error.contains("norms"), "{error}");
    }
    let updates = vec![vec![1.0; 6], vec![-1.0; 6], vec![1e3; 6]];
    let mut global = vec![0.0; 6];
    let mut fixed = "mean(max_norm=3)".parse::<Aggregation>().unwrap().build(6).unwrap();
    let mut shelf = Shelf::good(&updates);
    let verdicts = fixed.aggregate(&shelf.offers(&[0.25, 0.25, 0.5]), &mut shelf, 64, &mut global);
    assert_eq!(verdicts.unwrap().iter().filter(|verdict| verdict.is_err()).count(), 1);
    assert_eq!(global, [0.0; 6]);
    assert!(fixed.state().is_empty(), "a fixed bound remembers nothing");
}

/// Fewer updates than `full_reports` go their share of the way, whichever rule combines them; rejected ones do not count.
#[test]
fn few_updates_move_the_model_by_their_share() {
    let global = [4.0, -4.0];
    let update = vec![12.0, 4.0];
    for rule in RULES {
        let params = AggregationParams { rule, full_reports: 4, ..AggregationParams::default() };
        for (count, expected) in
            [(1, [6.0, -2.0]), (3, [10.0, 2.0]), (4, [12.0, 4.0]), (5, [12.0, 4.0])]
        {
            let mut updates = vec![update.clone(); count];
            updates.push(vec![f32::NAN; 2]);
            let weights = vec![1.0 / (count + 1) as f64; count + 1];
            let (found, verdicts) =
                combined(params, &mut Shelf::good(&updates), &weights, 1_000, &global);
            assert_eq!(verdicts.iter().filter(|verdict| verdict.is_ok()).count(), count);
            // Weights of the mean are rounded.
            let is_near = |(found, expected): (&f32, f32)| (found - expected).abs() < 1e-5;
            assert!(found.iter().zip(expected).all(is_near), "{rule:?}, {count}: {found:?}");
        }
        // The paper's rule.
        let plain = AggregationParams { rule, ..AggregationParams::default() };
        let (found, _) = combined(
            plain,
            &mut Shelf::good(std::slice::from_ref(&update)),
            &[1.0],
            1_000,
            &global,
        );
        assert_eq!(found, [12.0, 4.0]);
    }
    // A server optimiser steps towards where the share leads.
    let server = ServerRule::Momentum { learning_rate: 0.5, beta: 0.9 };
    let params = AggregationParams { full_reports: 4, server, ..AggregationParams::default() };
    let (found, _) = combined(params, &mut Shelf::good(&[update]), &[1.0], 1_000, &global);
    assert_eq!(found, [5.0, -3.0]);
}

#[test]
fn a_combination_that_is_not_finite_is_nobodys() {
    let updates = vec![vec![f32::MAX; 3]; 2];
    let mut shelf = Shelf::good(&updates);
    let (found, verdicts) =
        combined(AggregationParams::default(), &mut shelf, &[0.9, 0.9], 100, &[1.0; 3]);
    assert_eq!(found, [1.0; 3]);
    assert!(verdicts.iter().all(|verdict| verdict.as_ref().unwrap_err().why.contains("average")));
    // No distance can be measured to such a model.
    for rule in RULES {
        let params = AggregationParams { rule, clip_norm: 1.0, ..AggregationParams::default() };
        for bad in [f32::NAN, f32::INFINITY] {
            let (found, verdicts) = combined(params, &mut shelf, &[0.5; 2], 100, &[0.0, bad, 0.0]);
            assert_eq!(bits(&found), bits(&[0.0, bad, 0.0]));
            assert!(verdicts.iter().all(std::result::Result::is_err));
        }
    }
}

#[test]
fn a_share_is_the_one_that_was_written() {
    // 0.29 * 100 is 28.999999999999996; with the 29 largest cut, and the 29 smallest, nothing but zeros is left.
    let updates: Vec<Vec<f32>> = (0..100)
        .map(|member| {
            vec![if member < 29 { -1.0 } else { f32::from(u8::from(member >= 71)) * 5.0 }]
        })
        .collect();
    let params =
        AggregationParams { rule: Rule::TrimmedMean, trim: 0.29, ..AggregationParams::default() };
    let (found, _) = combined(params, &mut Shelf::good(&updates), &[0.01; 100], 1_000, &[9.0]);
    assert_eq!(found, [0.0]);
    // As much as can be cut leaves the median.
    let params = AggregationParams { trim: 0.5f64.next_down(), ..params };
    let (found, _) = combined(params, &mut Shelf::good(&updates), &[0.01; 100], 1_000, &[9.0]);
    assert_eq!(found, [0.0]);
}

#[test]
fn settings() {
    let read = |text: &str| serde_json::from_str::<AggregationParams>(text);
    assert_eq!(read("{}").unwrap(), AggregationParams::default());
    let text = r#"{"rule": "trimmed-mean", "trim": 0.25, "clip_norm": 2.5, "full_reports": 4, "max_norm": "auto",
                   "server": {"rule": "momentum", "learning_rate": 1.0, "beta": 0.5}}"#;
    let params = read(text).unwrap();
    let server = ServerRule::Momentum { learning_rate: 1.0, beta: 0.5 };
    let expected = AggregationParams {
        rule: Rule::TrimmedMean,
        trim: 0.25,
        clip_norm: 2.5,
        full_reports: 4,
        max_norm: MaxNorm::Auto,
        server,
    };
    assert_eq!(params, expected);
    assert!(read(r#"{"clip": 1}"#).is_err() && read(r#"{"rule": "mode"}"#).is_err());
    for trim in [-0.1, 0.5, f64::NAN] {
        assert_eq!(AggregationParams { trim, ..params }.check().unwrap_err().field(), "trim");
    }
    for clip_norm in [-1.0, f64::INFINITY, f64::NAN] {
        let error = AggregationParams { clip_norm, ..params }.build(1).unwrap_err();
        assert_eq!(error.field(), "clip_norm");
    }
    let mut shelf = Shelf::good(&[vec![1.0]]);
    let members = shelf.offers(&[1.0]);
    let mut for_two = params.build(2).unwrap();
    let error = for_two.aggregate(&members, &mut shelf, 100, &mut [0.0]).unwrap_err();
    assert_eq!(error.field(), "server");
}

#[test]
fn a_state_goes_on_exactly_and_only_where_it_fits() {
    let (members, parameters) = (4, 20);
    let cohort: Vec<_> =
        (0..).zip([0.25; 4]).map(|(c, w)| Contribution::new(c, w)).take(members).collect();
    for text in ["mean", "momentum(learning_rate=0.5)", "median+adam(learning_rate=0.1)"] {
        let aggregation: Aggregation = text.parse().unwrap();
        let mut one = aggregation.build(parameters).unwrap();
        let mut global = models(1, parameters, 9).remove(0);
        let step = |aggregator: &mut dyn Aggregator, global: &mut Vec<f32>, case| {
            let updates = models(members, parameters, case);
            let mut source = MemoryUpdates(&updates[..]);
            aggregator.aggregate(&cohort, &mut source, 1_000, global).unwrap();
        };
        step(&mut *one, &mut global, 10);
        let state: Vec<(String, Vec<f32>)> =
            one.state().into_iter().map(|(name, values)| (name.into(), values.to_vec())).collect();
        let mut other = aggregation.build(parameters).unwrap();
        other.load_state(state.clone()).unwrap();
        let mut other_global = global.clone();
        step(&mut *one, &mut global, 11);
        step(&mut *other, &mut other_global, 11);
        assert_eq!(bits(&global), bits(&other_global), "{text}");
        let longer = vec![("momentum".to_string(), vec![0.0; parameters + 1])];
        assert_eq!(other.load_state(longer).unwrap_err().field(), "aggregation state", "{text}");
        if !state.is_empty() {
            assert!(other.load_state(Vec::new()).is_err());
        }
    }
}
