//! The disk of a client.

use crate::common::folder;
use crate::common::site::{Site, settings, soon};
use agewise_server::client::{Client, ClientParams, Event, OwnTask};
use agewise_server::test_support::Numbers;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc;

const PARAMETERS: usize = 10;

/// Puts a file in the place of a folder: what was in it is kept, and nothing can be written there, also not by root.
fn block(folder: &Path) {
    fs::rename(folder, folder.with_extension("away")).unwrap();
    fs::write(folder, "in the way").unwrap();
}

fn unblock(folder: &Path) {
    fs::remove_file(folder).unwrap();
    fs::rename(folder.with_extension("away"), folder).unwrap();
}

/// A client whose state cannot be written stays, says so, and goes on when it can; what it was credited for is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_write_its_state_waits_until_it_can() {
    let mut params = settings(&folder("faults-client-disk"), 1, 1);
    params.round.rounds = 0;
    let site = Site::open(params, PARAMETERS).await;
    let place = folder("faults-client-disk-of-it").join("state");
    let (trained, blocked) = (Arc::new(AtomicU32::new(0)), place.clone());
    let task = Numbers::new(PARAMETERS).with_training(move |_, _| {
        // In the second round, between joining and the answer to the report.
        if trained.fetch_add(1, Ordering::Relaxed) == 1 {
            block(&blocked);
        }
        Ok(())
    });
    let params = ClientParams {
        name: Some("a".to_string()),
        state: Some(place.clone()),
        ..ClientParams::new(&site.url)
    };
    let (events, mut heard) = mpsc::unbounded_channel();
    let client = Client::new(params, Box::new(OwnTask(Arc::new(task)))).unwrap();
    let client = tokio::spawn(client.with_events(events).run(std::future::pending()));
    let (mut accepted, mut tries) = (Vec::new(), 0);
    while tries < 4 {
        match soon("the next event", heard.recv()).await.expect("the client is still there") {
            Event::Accepted { round } => accepted.push(round),
            Event::StateNotWritten { why } => {
                assert!(why.contains("state"), "it names the file: {why}");
                tries += 1;
            }
            _ => assert_eq!(tries, 0, "it does nothing else until its state is written"),
        }
    }
    assert_eq!(accepted, [0, 1], "the round whose answer could not be written down counts");
    unblock(&place);
    while accepted.len() < 4 {
        match soon("the next event", heard.recv()).await.expect("the client goes on") {
            Event::Accepted { round } => accepted.push(round),
            Event::Failed { why } => panic!("{why}"),
            _ => {}
        }
    }
    assert!(accepted.is_sorted_by(|one, next| one < next), "each of them once: {accepted:?}");
    for round in accepted {
        assert_eq!(site.outcome(round, 0), "reported");
    }
    client.abort();
    site.close().await;
}

/// From the beginning: a place where nothing can be written is an error that an operator has to see, not a reason to wait.
#[tokio::test]
async fn a_state_in_a_wrong_place_is_an_error_at_once() {
    let place = folder("faults-client-no-disk").join("state");
    fs::write(&place, "in the way").unwrap();
    let params =
        ClientParams { state: Some(place.clone()), ..ClientParams::new("http://127.0.0.1:1") };
    let task = Box::new(OwnTask(Arc::new(Numbers::new(1))));
    let opened = soon("an error", Client::open(params, task)).await;
    let why = opened.err().expect("there is a file in the way").to_string();
    assert!(why.contains(&*place.to_string_lossy()), "{why}");
}
