//! Files that were damaged while the coordinator was away.

use crate::common::folder;
use crate::common::site::{Site, settings, soon};
use crate::faults::raw::Raw;
use agewise_server::CoordinatorParams;
use agewise_server::client::{Client, ClientParams, Event, OwnTask, TaskProvider};
use agewise_server::test_support::Numbers;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

const PARAMETERS: usize = 1_000;

/// What can happen to a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Flipped,
    Truncated,
    Emptied,
    Gone,
}

const ALL: [Damage; 4] = [Damage::Truncated, Damage::Emptied, Damage::Gone, Damage::Flipped];

impl Damage {
    fn remove(self, path: &PathBuf) {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        match self {
            // A low bit of a number: it stays a small number.
            Self::Flipped => bytes[middle / 4 * 4 + 1] ^= 0x10,
            Self::Truncated => bytes.truncate(middle),
            Self::Emptied => bytes.clear(),
            Self::Gone => return fs::remove_file(path).unwrap(),
        }
        fs::write(path, bytes).unwrap();
    }
}

fn wanted(name: &str) -> CoordinatorParams {
    let mut params = settings(&folder(name), 3, 3);
    params.round.rounds = 3;
    params.round.join_seconds = 20.0;
    params.round.report_seconds = 40.0;
    params
}

/// Plays a round with everyone.
async fn play(crowd: &mut [Raw], round: u64, version: u64, values: [f32; 3]) {
    for (raw, value) in crowd.iter_mut().zip(values) {
        raw.round(round).await;
        raw.join(round).await;
        raw.report(round, version, value).await;
    }
}

/// A stored update of the round under way goes bad: its client stays credited, and the model is made of the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_update_is_excluded_and_its_client_stays_credited() {
    for damage in ALL {
        let params = wanted(&format!("faults-damaged-update-{damage:?}"));
        let site = Site::open(params.clone(), PARAMETERS).await;
        let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
        for raw in &mut crowd {
            raw.round(0).await;
            raw.join(0).await;
        }
        crowd[0].report(0, 0, 8.0).await;
        crowd[1].report(0, 0, 2.0).await;
        let victim = crowd[0].client;
        let updates = site.state.join("updates/0");
        // While all are still there: the round would end without those that hang up.
        site.close().await;
        drop(crowd);
        let mut files = fs::read_dir(updates).unwrap().map(|entry| entry.unwrap().path());
        let start = format!("{victim}-");
        let file =
            files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&start));
        damage.remove(&file.unwrap());

        let site = Site::open(params, PARAMETERS).await;
        let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
        assert_eq!(crowd[0].waiting_since, 1, "{damage:?}");
        let warnings = site.status().await.warnings;
        assert!(
            warnings.iter().any(|text| text.contains(&format!("client {victim}"))),
            "{warnings:?}"
        );
        crowd[2].join(0).await;
        crowd[2].report(0, 0, 4.0).await;
        site.until("SELECT COUNT(*) FROM rounds WHERE round = 0 AND state = 'committed'", 1).await;
        assert_eq!(site.outcome(0, victim), "reported", "{damage:?}");
        assert_eq!(site.value(1), 3.0, "{damage:?}: the mean of the two that are whole");
        site.close().await;
    }
}

/// The newest model goes bad: the one before is used, it says so, and the run goes on to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_model_is_replaced_by_the_one_before() {
    for damage in ALL {
        let params = wanted(&format!("faults-damaged-model-{damage:?}"));
        let site = Site::open(params.clone(), PARAMETERS).await;
        let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
        play(&mut crowd, 0, 0, [1.0; 3]).await;
        play(&mut crowd, 1, 1, [5.0; 3]).await;
        crowd[0].round(2).await;
        drop(crowd);
        let newest = site.state.join("models/00000002.safetensors");
        site.close().await;
        damage.remove(&newest);

        let site = Site::open(params, PARAMETERS).await;
        let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
        let warnings = site.status().await.warnings;
        assert!(
            warnings.iter().any(|text| text.contains("model 2 is damaged")),
            "{damage:?}: {warnings:?}"
        );
        let heard = crowd[0].round(2).await;
        assert_eq!(heard.model_version, 1, "{damage:?}");
        for raw in &mut crowd {
            raw.join(2).await;
            assert_eq!(raw.fetch(2).await, vec![1.0; PARAMETERS], "{damage:?}");
            raw.report(2, 1, 9.0).await;
        }
        drop(crowd);
        site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed'", 3).await;
        assert_eq!(site.value(3), 9.0);
        assert_eq!(site.count("SELECT SUM(reports) FROM clients"), 9);
        site.until_the_end().await;
    }
}

/// The model of the round under way goes bad: what was credited counts, and the others train the model before, not the lost one.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_model_in_the_middle_of_a_round() {
    let params = wanted("faults-damaged-model-round");
    let site = Site::open(params.clone(), PARAMETERS).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
    play(&mut crowd, 0, 0, [1.0; 3]).await;
    for raw in &mut crowd {
        raw.round(1).await;
        raw.join(1).await;
    }
    crowd[0].report(1, 1, 3.0).await;
    let newest = site.state.join("models/00000001.safetensors");
    site.close().await;
    drop(crowd);
    Damage::Flipped.remove(&newest);

    let site = Site::open(params, PARAMETERS).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
    assert_eq!(crowd[0].waiting_since, 2, "what was credited stays");
    assert!(site.text("SELECT note FROM rounds WHERE round = 1").contains("model 1 was damaged"));
    // An update of the lost version is refused; the same client may train the version that is there.
    let old = crowd[1].update(1, 1, 7.0);
    assert!(crowd[1].refused(old).await.contains("version"));
    for raw in &mut crowd[1..] {
        raw.join(1).await;
        raw.report(1, 0, 3.0).await;
    }
    site.until("SELECT COUNT(*) FROM rounds WHERE round = 1 AND state = 'committed'", 1).await;
    assert_eq!(site.value(2), 3.0);
    site.close().await;
}

/// No model is whole: nothing is begun, nothing is written, and the message names the files.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_whole_model_nothing_is_begun() {
    let params = wanted("faults-no-model");
    let site = Site::open(params.clone(), PARAMETERS).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
    play(&mut crowd, 0, 0, [1.0; 3]).await;
    crowd[0].round(1).await;
    drop(crowd);
    let models = site.state.join("models");
    site.close().await;
    let files = ["00000000.safetensors", "00000001.safetensors"].map(|name| models.join(name));
    for path in &files {
        Damage::Flipped.remove(path);
    }
    let before = files.clone().map(|path| fs::read(path).unwrap());
    let trouble = Site::open(params, PARAMETERS).await.end().await.unwrap_err();
    assert!(trouble.is_bad_input());
    for path in &files {
        assert!(trouble.to_string().contains(path.to_str().unwrap()), "{trouble}");
    }
    assert_eq!(files.map(|path| fs::read(path).unwrap()), before);
}

/// A task that trains nothing, and takes away the folder into which its update is to go.
fn saboteur(place: PathBuf) -> Box<dyn TaskProvider> {
    let task = Numbers::new(PARAMETERS).with_training(move |_, parameters| {
        fs::remove_dir_all(&place).ok();
        parameters.fill(1.0);
        Ok(())
    });
    Box::new(OwnTask(Arc::new(task)))
}

/// Updates cannot be stored for a while: the client tries again, and is credited as soon as they can.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_deliver_tries_again() {
    let mut params = wanted("faults-no-place");
    (params.round.clients, params.round.cohort, params.round.rounds) = (1, 1, 1);
    let site = Site::open(params, PARAMETERS).await;
    let place = site.state.join("updates/0");
    let (events, mut heard) = mpsc::unbounded_channel();
    let params = ClientParams { name: Some("a".to_string()), ..ClientParams::new(&site.url) };
    let client = Client::new(params, saboteur(place.clone())).unwrap();
    let client = client.with_events(events);
    let running = tokio::spawn(client.run(std::future::pending()));
    let joining = async { while !matches!(heard.recv().await.unwrap(), Event::Joined { .. }) {} };
    soon("the client to join", joining).await;
    let mut tries = 0;
    while tries < 4 {
        let event = soon("the next try", heard.recv()).await.unwrap();
        assert!(!matches!(event, Event::Accepted { .. } | Event::NotAccepted { .. }), "{event:?}");
        tries += usize::from(matches!(event, Event::Disconnected { .. }));
    }
    fs::create_dir_all(&place).unwrap();
    soon("the end of the client", running).await.unwrap().unwrap();
    assert_eq!(site.outcome(0, 0), "reported");
    assert_eq!(site.value(1), 1.0);
    site.until_the_end().await;
}
