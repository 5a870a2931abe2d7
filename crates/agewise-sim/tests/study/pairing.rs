//! Differences come from selection alone: one seed is one split, one first model and one set of batches.

use crate::worlds::{bits, made_up, play, small, study};
use agewise_core::{
    Availability, PolicySpec, Report, Seed, Selector, SettingParams, SizeLaw, Start, Weighting,
};
use agewise_learn::aggregate::{Server, ServerRule};
use agewise_learn::data::{
    Dataset, PartitionLaw, PartitionParams, PixelScale, PixelTable, embedded_digits,
};
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::model::{Model, ModelSpec};
use agewise_learn::train::{Crew, Learner, LocalTrainingParams, LocalWork, Samples, Trainer};
use agewise_sim::study::{RunId, Study, StudyParams, TrainingRun};
use std::collections::BTreeMap;

const EVERY_KIND: [&str; 7] = [
    "random",
    "probabilistic",
    "markov-optimal",
    "markov-linear@cold",
    "oldest-first",
    "phased(reshuffle=0.3)",
    "round-robin",
];

#[test]
fn a_seed_is_one_split_and_one_first_model_for_all() {
    let one = study(small(&EVERY_KIND));
    let other = study(StudyParams { rounds: 2, learning_rate: 0.3, ..small(&["phased"]) });
    for index in 0..2 {
        let (here, there) = (one.scene(index).unwrap(), other.scene(index).unwrap());
        assert_eq!(here.seed, Seed(5 + u64::from(index)));
        assert_eq!(here.partition, there.partition);
        assert_eq!(bits(&here.first), bits(&there.first));
        for contender in 0..EVERY_KIND.len() {
            let run = TrainingRun::new(&one, RunId { seed: index, contender }).unwrap();
            assert_eq!(bits(run.global()), bits(&here.first));
        }
        // Every image belongs to one client.
        let mut images: Vec<u32> = (0..12).flat_map(|k| here.partition.of(k).to_vec()).collect();
        images.sort_unstable();
        assert_eq!(images, (0..480).collect::<Vec<u32>>());
    }
    let (first, second) = (one.scene(0).unwrap(), one.scene(1).unwrap());
    assert_ne!(first.partition, second.partition);
    assert_ne!(bits(&first.first), bits(&second.first));
    // The second seed of one study is the first of another that begins there.
    let later = study(StudyParams { seed: 6, ..small(&["random"]) });
    assert_eq!(later.scene(0).unwrap().partition, second.partition);
}

#[test]
fn whoever_chooses_a_client_in_the_first_round_hears_the_same_loss() {
    let study = study(StudyParams { rounds: 1, ..small(&EVERY_KIND) });
    let (records, _) = play(&study, 2);
    let mut heard: BTreeMap<(u32, u32), f32> = BTreeMap::new();
    let mut again = 0;
    for record in &records {
        let log = &record.logs[0];
        for (&client, loss) in log.clients.iter().zip(&log.losses) {
            let loss = loss.unwrap();
            let before = heard.insert((record.id.seed, client), loss);
            again += u32::from(before.is_some());
            assert_eq!(before.unwrap_or(loss).to_bits(), loss.to_bits(), "{:?}", record.id);
        }
    }
    assert!(again > 20, "only {again} clients were chosen twice");
}

/// With a learning rate of 0 the model stays as it is but for rounding, so a client's loss in a round depends on its
/// batches alone.
#[test]
fn batches_depend_on_seed_round_and_client_alone() {
    let params = StudyParams { learning_rate: 0.0, rounds: 12, ..small(&EVERY_KIND) };
    let (records, _) = play(&study(params), 2);
    let mut heard: BTreeMap<(u32, u64, u32), f32> = BTreeMap::new();
    let mut of_a_client: BTreeMap<(u32, u32), Vec<f32>> = BTreeMap::new();
    for record in &records {
        for log in &record.logs {
            for (&client, loss) in log.clients.iter().zip(&log.losses) {
                let loss = loss.unwrap();
                let key = (record.id.seed, log.round, client);
                let before = heard.insert(key, loss).unwrap_or_else(|| {
                    of_a_client.entry((key.0, client)).or_default().push(loss);
                    loss
                });
                assert!((before - loss).abs() < 2e-5, "{key:?}: {before}, {loss}");
            }
        }
    }
    // The same client has other batches in other rounds.
    for losses in of_a_client.values().filter(|losses| losses.len() > 3) {
        let spread = losses.iter().map(|loss| (loss - losses[0]).abs()).fold(0.0, f32::max);
        assert!(spread > 1e-3, "{losses:?}");
    }
}

#[test]
fn who_chooses_the_same_cohorts_ends_with_the_same_bytes() {
    // The last probability of a law holds for all greater ages, and chance does not look at ages.
    let laws = ["markov-custom(p=[0, 0.5, 1])", "markov-custom(p=[0,0.5,1,1])"];
    let same = [&laws[..], &["random", "random@cold", "random@stationary"]].concat();
    let study = study(StudyParams { baseline: "random".to_string(), ..small(&same) });
    let (records, models) = play(&study, 2);
    let run = |seed: u32, contender: usize| {
        let record = &records[seed as usize * same.len() + contender];
        let id = RunId { seed, contender };
        assert_eq!(record.id, id);
        (&record.logs, &models[&id])
    };
    for seed in 0..2 {
        assert_eq!(run(seed, 0), run(seed, 1));
        assert_eq!(run(seed, 2), run(seed, 3));
        assert_eq!(run(seed, 2), run(seed, 4));
        assert_ne!(run(seed, 0), run(seed, 2));
    }
    assert_ne!(run(0, 2), run(1, 2));
}

#[test]
fn with_equal_sizes_weightings_of_chance_are_one() {
    let played = |weighting| {
        let params = StudyParams { weighting, partition: "iid".to_string(), ..small(&["random"]) };
        let (records, models) = play(&study(params), 1);
        (records.into_iter().map(|record| record.logs).collect::<Vec<_>>(), models)
    };
    let own = played(None);
    for weighting in [Weighting::Uniform, Weighting::DataSize, Weighting::DrawCount] {
        assert_eq!(played(Some(weighting)), own, "{weighting}");
    }
}

/// FedAvg with random selection, written out: the last model and the hits of every round.
fn by_hand(data: &Dataset, params: &StudyParams, seed: Seed) -> (Vec<u32>, Vec<Vec<u64>>) {
    let pixels = PixelTable::new(PixelScale::Standardised, &data.train);
    let split = PartitionParams {
        law: PartitionLaw::Dirichlet(0.3),
        sizes: SizeLaw::Equal,
        clients: params.clients,
        least: 1,
        seed,
    };
    let partition = split.check(&data.train).unwrap().split();
    let classes = data.train.classes() as usize;
    let spec = ModelSpec::named(&params.model, data.train.shape(), classes).unwrap();
    let trainer = Trainer::new(Model::new(spec).unwrap());
    let training = LocalTrainingParams {
        work: LocalWork::Epochs(1),
        batch: params.batch,
        learning_rate: params.learning_rate as f32,
        ..LocalTrainingParams::default()
    };
    let training = training.check().unwrap();
    let server = Server::new(ServerRule::Average, trainer.parameters()).unwrap();
    let mut federation = Federation::new(trainer.initial(seed), server).unwrap();
    let mut crew = Crew::new(&trainer, 2).unwrap();
    let setting = SettingParams::new(params.clients, params.cohort, params.max_age);
    let random = PolicySpec::named("random");
    let mut selector =
        Selector::new(&random, setting.check().unwrap(), seed, Start::Stationary).unwrap();
    let mut hits = Vec::new();
    for round in 0..params.rounds {
        let cohort = selector.select(Availability::Everyone).unwrap();
        let member = |&client: &u32| {
            let indices = Some(partition.of(client as usize));
            let samples = Samples { images: &data.train, indices, pixels: &pixels };
            Member { client, weight: 1.0 / cohort.clients.len() as f64, samples }
        };
        let members: Vec<Member<'_>> = cohort.clients.iter().map(member).collect();
        let plan = RoundPlan::new(&training, seed, round);
        federation.round(&mut crew, &members, plan).unwrap();
        let reports: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
        selector.finish(&reports).unwrap();
        let test = crew.evaluate(federation.global(), &Samples::all(&data.test, &pixels));
        hits.push(test.unwrap().class_correct);
    }
    (bits(federation.global()), hits)
}

#[test]
fn random_is_the_fedavg_that_one_writes_by_hand() {
    let digits = StudyParams { clients: 60, ..small(&["random"]) };
    for (data, model, params) in [
        (made_up(), "softmax", small(&["random"])),
        (made_up(), "2nn", small(&["random"])),
        (embedded_digits().unwrap(), "softmax", digits),
    ] {
        let params = StudyParams {
            model: model.to_string(),
            local_work: "1 epoch".to_string(),
            partition: "dirichlet:0.3".to_string(),
            batch: 20,
            rounds: 4,
            ..params
        };
        let study = Study::new(params.clone(), data.clone()).unwrap();
        let (records, models) = play(&study, 2);
        for record in records {
            let (model, hits) = by_hand(&data, &params, study.seed(record.id.seed));
            assert_eq!(models[&record.id], model, "{}", params.model);
            let images = data.test.len() as f64;
            for (round, (log, hits)) in record.logs.iter().zip(hits).enumerate() {
                assert_eq!(log.test.as_ref().unwrap().correct, hits);
                let accuracy = hits.iter().sum::<u64>() as f64 / images;
                let point = record.curve[round];
                assert_eq!((point.round, point.accuracy), (round as u64 + 1, accuracy));
            }
        }
    }
}
