//! Combining stored updates: against rounds that hold them in memory, and against the definitions written out.

#![allow(clippy::unwrap_used, reason = "a failed `unwrap` is a failed test")]

use agewise_core::{Error, Lots, Result, Seed, Stream};
use agewise_learn::Evaluation;
use agewise_learn::aggregate::{Aggregator, Rejected, Server, ServerRule};
use agewise_learn::combine::{CombineParams, CombineRule, Offered, StoredUpdates};
use agewise_learn::data::{ImageShape, Images, PixelScale, PixelTable};
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::train::{
    Crew, Learner, LocalReport, LocalTask, LocalTrainingParams, Samples, Worker,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand_core::Rng;

/// What becomes of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
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

/// Updates in memory, some of which are bad.
#[derive(Debug, Clone)]
struct Shelf {
    updates: Vec<(Fate, Vec<f32>)>,
    /// How often each was read from its first parameter on.
    begun: Vec<usize>,
    /// The longest piece that was asked for.
    longest: usize,
}

impl Shelf {
    fn new(updates: Vec<(Fate, Vec<f32>)>) -> Self {
        Self { begun: vec![0; updates.len()], updates, longest: 0 }
    }

    fn good(updates: &[Vec<f32>]) -> Self {
        Self::new(updates.iter().map(|update| (Fate::Good, update.clone())).collect())
    }

    /// The members, with these weights.
    fn offers(&self, weights: &[f64]) -> Vec<Offered> {
        let offer = |((client, &weight), (fate, _)): ((u32, &f64), &(Fate, _))| {
            let missing = (*fate == Fate::Missing).then(|| "too late".to_string());
            Offered { client, weight, missing }
        };
        (100..).zip(weights).zip(&self.updates).map(offer).collect()
    }
}

impl StoredUpdates for Shelf {
    fn read(&mut self, member: usize, first: usize, target: &mut [f32]) -> Result<()> {
        let (fate, update) = &self.updates[member];
        let end = first + target.len();
        self.longest = self.longest.max(target.len());
        self.begun[member] += usize::from(first == 0);
        target.copy_from_slice(&update[first..end]);
        let readable = match *fate {
            Fate::Good => true,
            Fate::Missing => unreachable!("a missing update was asked for"),
            Fate::Poisoned => {
                target[target.len() - 1] = f32::NAN;
                true
            }
            Fate::CutOff(at) => end <= at,
            Fate::Fading(times) => self.begun[member] <= times || end < update.len(),
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
    params: CombineParams,
    shelf: &mut Shelf,
    weights: &[f64],
    memory: usize,
    global: &[f32],
) -> (Vec<f32>, Vec<std::result::Result<(), Rejected>>) {
    let mut moved = global.to_vec();
    let mut server = Server::new(ServerRule::Average, global.len()).unwrap();
    let members = shelf.offers(weights);
    let verdicts =
        params.check().unwrap().apply(&members, shelf, memory, &mut server, &mut moved).unwrap();
    (moved, verdicts)
}

/// The updates that count after clipping, as the definition says.
fn clipped(shelf: &Shelf, clip_norm: f64, global: &[f32]) -> Vec<Vec<f32>> {
    let good = shelf.updates.iter().filter(|(fate, _)| *fate == Fate::Good);
    let clip = |(_, update): &(Fate, Vec<f32>)| {
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

/// Trimmed mean or median as the definition says.
fn middle_by_definition(params: CombineParams, updates: &[Vec<f32>], at: usize) -> f32 {
    let mut values: Vec<f64> = updates.iter().map(|update| f64::from(update[at])).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let kept = match params.rule {
        CombineRule::Median if count % 2 == 1 => return values[count / 2] as f32,
        CombineRule::Median => &values[count / 2 - 1..=count / 2],
        _ => {
            let cut = (params.trim * count as f64).floor() as usize;
            &values[cut..count - cut]
        }
    };
    (kept.iter().sum::<f64>() / kept.len() as f64) as f32
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Good),
        1 => Just(Fate::Missing),
        1 => Just(Fate::Poisoned),
        1 => (0usize..8).prop_map(Fate::CutOff),
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
        let updates = prop::collection::vec((fate(), model()), members);
        let shelf = updates.prop_map(move |mut updates| {
            for (fate, _) in &mut updates {
                // Every cut is inside of the update.
                if let Fate::CutOff(at) = fate {
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
    fn the_mean_is_that_of_the_aggregator(
        (global, mut shelf, weights) in cohort(), rule in server_rule(), memory in 4usize..40,
    ) {
        let mut server = Server::new(rule, global.len()).unwrap();
        let (mut other_server, mut other_global) = (server.clone(), global.clone());
        let mut aggregator = Aggregator::new(global.len());
        let members = shelf.offers(&weights);
        let mut taken = Vec::new();
        for (&Offered { client, weight, .. }, (fate, update)) in members.iter().zip(&shelf.updates) {
            let verdict = match fate {
                Fate::Good => aggregator.add(client, weight, update),
                other => Err(aggregator.miss(client, weight, format!("{other:?}"))),
            };
            taken.push(verdict.is_ok());
        }
        let finished = aggregator.finish(&mut other_server, &mut other_global);
        let mut moved = global.clone();
        let verdicts = CombineParams::default()
            .check()
            .unwrap()
            .apply(&members, &mut shelf, memory, &mut server, &mut moved)
            .unwrap();
        prop_assert_eq!(bits(&moved), bits(&other_global));
        prop_assert_eq!(server, other_server);
        prop_assert!(shelf.longest * 4 <= memory);
        for (member, (verdict, taken)) in verdicts.iter().zip(taken).enumerate() {
            prop_assert_eq!(verdict.is_ok(), taken && finished.is_ok());
            if let Err(Rejected { client, .. }) = verdict {
                prop_assert_eq!(*client, members[member].client);
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
        let rule = if trimmed { CombineRule::TrimmedMean } else { CombineRule::Median };
        let params = CombineParams { rule, trim, clip_norm };
        let weights: Vec<f64> = weights.iter().map(|weight| weight.max(0.0)).collect();
        let came = shelf.updates.iter().filter(|(fate, _)| *fate != Fate::Missing).count();
        let memory = 4 * came.max(1) + extra;
        let (moved, verdicts) = combined(params, &mut shelf, &weights, memory, &global);
        let kept = clipped(&shelf, clip_norm, &global);
        let expected: Vec<f32> = (0..global.len())
            .map(|at| if kept.is_empty() { global[at] } else { middle_by_definition(params, &kept, at) })
            .collect();
        prop_assert_eq!(bits(&moved), bits(&expected));
        prop_assert!(shelf.longest * 4 <= memory);
        for (verdict, (fate, _)) in verdicts.iter().zip(&shelf.updates) {
            prop_assert_eq!(verdict.is_ok(), *fate == Fate::Good);
        }
    }

    #[test]
    fn the_clipped_mean_is_that_of_clipped_updates(
        (global, mut shelf, weights) in cohort(), clip_norm in 0.1f64..5.0, memory in 4usize..40,
    ) {
        let weights: Vec<f64> = weights.iter().map(|weight| weight.max(0.0)).collect();
        let mut short = clipped(&shelf, clip_norm, &global).into_iter();
        let mut clipped_shelf = shelf.clone();
        for (fate, update) in &mut clipped_shelf.updates {
            if *fate == Fate::Good {
                *update = short.next().unwrap();
            }
        }
        let params = CombineParams { clip_norm, ..CombineParams::default() };
        let found = combined(params, &mut shelf, &weights, memory, &global);
        let plain = CombineParams::default();
        let expected = combined(plain, &mut clipped_shelf, &weights, memory, &global);
        prop_assert_eq!(bits(&found.0), bits(&expected.0));
        prop_assert_eq!(found.1, expected.1);
    }
}

/// Numbers from -1 to 1.
fn models(count: usize, parameters: usize, case: u64) -> Vec<Vec<f32>> {
    let mut numbers = Lots::new(Seed(11), Stream::custom(902), case).sequence(0);
    let mut number = || (numbers.next_u64() >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
    (0..count).map(|_| (0..parameters).map(|_| number()).collect()).collect()
}

const RULES: [CombineRule; 3] = [CombineRule::Mean, CombineRule::TrimmedMean, CombineRule::Median];

#[test]
fn memory_changes_nothing() {
    let (members, parameters) = (7, 53);
    let updates = models(members, parameters, 0);
    let global = &models(1, parameters, 1)[0];
    let weights = vec![0.13; members];
    for rule in RULES {
        for clip_norm in [0.0, 4.0] {
            let params = CombineParams { rule, clip_norm, trim: 0.2 };
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
        for rule in [CombineRule::TrimmedMean, CombineRule::Median] {
            let params = CombineParams { rule, ..CombineParams::default() };
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
    let params = CombineParams::default();
    combined(params, &mut shelf, &weights, 4 * parameters, &global);
    assert_eq!(shelf.begun, vec![1; members], "what fits is read once");
    shelf.longest = 0;
    combined(params, &mut shelf, &weights, 999, &global);
    assert_eq!(shelf.longest, 249);
    // Only those that came need a place.
    for fate in [Fate::Missing, Fate::Good] {
        shelf.updates[3].0 = fate;
        let members = shelf.offers(&weights);
        let combine = CombineParams { rule: CombineRule::Median, ..params }.check().unwrap();
        let mut server = Server::new(ServerRule::Average, parameters).unwrap();
        let mut moved = global.clone();
        let result = combine.apply(&members, &mut shelf, 79, &mut server, &mut moved);
        assert_eq!(result.is_ok(), fate == Fate::Missing);
        if let Err(error) = result {
            assert_eq!((error.field(), error.value()), ("memory", "79"));
            assert!(error.to_string().contains("80 bytes"), "{error}");
            assert_eq!(moved, global);
        } else {
            assert_ne!(moved, global);
        }
    }
    let combine = params.check().unwrap();
    let mut server = Server::new(ServerRule::Average, 0).unwrap();
    assert_eq!(
        combine.apply(&[], &mut shelf, 3, &mut server, &mut []).unwrap_err().field(),
        "memory"
    );
    for rule in RULES {
        let combine = CombineParams { rule, ..params }.check().unwrap();
        let none = combine.apply(&[], &mut shelf, 4, &mut server, &mut []).unwrap();
        assert!(none.is_empty());
        // A model of no parameters is combined all the same.
        let members = shelf.offers(&weights);
        let all = combine.apply(&members, &mut shelf, 80, &mut server, &mut []).unwrap();
        assert!(all.len() == 20 && all.iter().all(std::result::Result::is_ok));
    }
}

#[test]
fn an_update_that_goes_bad_later_leaves_no_trace() {
    let parameters = 30;
    let updates = models(6, parameters, 3);
    let global = vec![0.0; parameters];
    for rule in RULES {
        let params = CombineParams { rule, clip_norm: 2.0, trim: 0.2 };
        let mut shelf = Shelf::good(&updates);
        for member in [1, 4, 5] {
            shelf.updates[member].0 = Fate::Fading(1);
        }
        // Mean: the weights of those that are left out are shared by the others.
        let (found, verdicts) = combined(params, &mut shelf, &[1.0 / 6.0; 6], 80, &global);
        let taken: Vec<bool> = verdicts.iter().map(std::result::Result::is_ok).collect();
        assert_eq!(taken, [true, false, true, true, false, false]);
        assert!(verdicts[4].as_ref().unwrap_err().to_string().contains("client 104: file"));
        for member in [1, 4, 5] {
            shelf.updates[member].0 = Fate::Missing;
        }
        let (expected, _) = combined(params, &mut shelf, &[1.0 / 6.0; 6], 80, &global);
        assert_eq!(bits(&found), bits(&expected));
        for (fate, _) in &mut shelf.updates {
            *fate = Fate::Fading(1);
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
    for rule in [CombineRule::TrimmedMean, CombineRule::Median] {
        let params = CombineParams { rule, ..CombineParams::default() };
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
    let params = CombineParams { clip_norm: 3.0, ..CombineParams::default() };
    let (found, _) = combined(params, &mut Shelf::good(&updates), &[0.1; 10], 4_000, &global);
    let norm = found.iter().map(|value| f64::from(value * value)).sum::<f64>().sqrt();
    assert!((norm - 0.3).abs() < 1e-6, "{norm}");
}

#[test]
fn a_combination_that_is_not_finite_is_nobodys() {
    let updates = vec![vec![f32::MAX; 3]; 2];
    let mut shelf = Shelf::good(&updates);
    let (found, verdicts) =
        combined(CombineParams::default(), &mut shelf, &[0.9, 0.9], 100, &[1.0; 3]);
    assert_eq!(found, [1.0; 3]);
    assert!(verdicts.iter().all(|verdict| verdict.as_ref().unwrap_err().why.contains("average")));
    // No distance can be measured to such a model.
    for rule in RULES {
        let params = CombineParams { rule, clip_norm: 1.0, ..CombineParams::default() };
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
    let params = CombineParams { rule: CombineRule::TrimmedMean, trim: 0.29, clip_norm: 0.0 };
    let (found, _) = combined(params, &mut Shelf::good(&updates), &[0.01; 100], 1_000, &[9.0]);
    assert_eq!(found, [0.0]);
    // As much as can be cut leaves the median.
    let params = CombineParams { trim: 0.5f64.next_down(), ..params };
    let (found, _) = combined(params, &mut Shelf::good(&updates), &[0.01; 100], 1_000, &[9.0]);
    assert_eq!(found, [0.0]);
}

#[test]
fn settings() {
    let read = |text: &str| serde_json::from_str::<CombineParams>(text);
    assert_eq!(read("{}").unwrap(), CombineParams::default());
    let params = read(r#"{"rule": "trimmed-mean", "trim": 0.25, "clip_norm": 2.5}"#).unwrap();
    let expected = CombineParams { rule: CombineRule::TrimmedMean, trim: 0.25, clip_norm: 2.5 };
    assert_eq!((params, *params.check().unwrap().params()), (expected, expected));
    assert!(read(r#"{"clip": 1}"#).is_err() && read(r#"{"rule": "mode"}"#).is_err());
    for trim in [-0.1, 0.5, f64::NAN] {
        assert_eq!(CombineParams { trim, ..params }.check().unwrap_err().field(), "trim");
    }
    for clip_norm in [-1.0, f64::INFINITY, f64::NAN] {
        let error = CombineParams { clip_norm, ..params }.check().unwrap_err();
        assert_eq!(error.field(), "clip_norm");
    }
    let mut server =
        Server::new(ServerRule::Momentum { learning_rate: 1.0, beta: 0.5 }, 2).unwrap();
    let mut shelf = Shelf::good(&[vec![1.0]]);
    let members = shelf.offers(&[1.0]);
    let combine = params.check().unwrap();
    let error = combine.apply(&members, &mut shelf, 100, &mut server, &mut [0.0]).unwrap_err();
    assert_eq!(error.field(), "server");
}

/// A learner whose clients come back with what lies on a shelf; the number of a client is its place there, plus 100.
struct Replay(Shelf);

impl Learner for Replay {
    fn parameters(&self) -> usize {
        self.0.updates[0].1.len()
    }

    fn initial(&self, _seed: Seed) -> Vec<f32> {
        vec![0.25; self.parameters()]
    }

    fn worker(&self) -> Box<dyn Worker> {
        Box::new(Self(self.0.clone()))
    }
}

impl Worker for Replay {
    fn train(&mut self, task: &LocalTask<'_>, parameters: &mut [f32]) -> Result<LocalReport> {
        self.0.read(task.client as usize - 100, 0, parameters)?;
        Ok(LocalReport { steps: 1, samples: 1, loss: 0.0, mean_square: 0.0 })
    }

    fn evaluate(&mut self, _parameters: &[f32], _samples: &Samples<'_>) -> Result<Evaluation> {
        Ok(Evaluation::new(1))
    }
}

#[test]
fn rounds_are_those_of_a_federation() {
    let images = Images::new(ImageShape::new(1, 1, 1), 1, vec![0], vec![0]).unwrap();
    let pixels = PixelTable::new(PixelScale::Unit, &images);
    let training = LocalTrainingParams::default().check().unwrap();
    let combine = CombineParams::default().check().unwrap();
    let (members, parameters) = (12, 300);
    let mut shelf = Shelf::good(&models(members, parameters, 5));
    shelf.updates[2].0 = Fate::Poisoned;
    shelf.updates[7].0 = Fate::CutOff(250);
    let mut weights: Vec<f64> = (1..=members).map(|member| member as f64 / 80.0).collect();
    weights[9] = -1.0;
    for rule in [
        ServerRule::Average,
        ServerRule::Momentum { learning_rate: 0.5, beta: 0.9 },
        ServerRule::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 1e-3 },
    ] {
        let learner = Replay(shelf.clone());
        let mut crew = Crew::new(&learner, 2).unwrap();
        let mut server = Server::new(rule, parameters).unwrap();
        let mut global = learner.initial(Seed(0));
        let mut federation = Federation::new(global.clone(), server.clone()).unwrap();
        let offers = shelf.offers(&weights);
        let samples = Samples::all(&images, &pixels);
        let member = |&Offered { client, weight, .. }: &Offered| Member { client, weight, samples };
        let cohort: Vec<_> = offers.iter().map(member).collect();
        for round in 0..4 {
            let plan = RoundPlan::new(&training, Seed(0), round);
            let report = federation.round(&mut crew, &cohort, plan).unwrap();
            let expected: Vec<_> = report.members.into_iter().map(|who| who.map(|_| ())).collect();
            let memory = [4, 100, 1_200, 1_000_000][round as usize];
            let verdicts =
                combine.apply(&offers, &mut shelf, memory, &mut server, &mut global).unwrap();
            assert_eq!(verdicts, expected);
            assert_eq!(bits(&global), bits(federation.global()));
            assert_eq!(&server, federation.server());
        }
    }
}
