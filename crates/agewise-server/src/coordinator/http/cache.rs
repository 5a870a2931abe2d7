//! A cache of the rendered history, shared by all requests.

use super::history::{Snapshot, draw};
use crate::coordinator::shared::{LiveStatus, Shared};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Rounds may end faster than a page is read.
const SHORTEST_STAY: Duration = Duration::from_millis(500);
/// Late and refused reports change rounds that are over.
const LONGEST_STAY: Duration = Duration::from_secs(10);

/// The history as it was read, and as HTML.
#[derive(Debug)]
pub(super) struct RenderedHistory {
    pub(super) seen: Snapshot,
    /// Changes with the HTML.
    pub(super) version: String,
    pub(super) html: String,
}

/// The ledger cannot be read. Why is in the log: it names files of this machine.
#[derive(Debug)]
pub(super) struct Unreadable;

/// The history is rendered again when this changes: the round, and the number of enrolled clients.
type Key = Option<(u64, u32)>;

#[derive(Debug)]
struct Cached {
    key: Key,
    at: Instant,
    past: Arc<RenderedHistory>,
}

impl Cached {
    fn is_good_for(&self, key: Key) -> bool {
        let age = self.at.elapsed();
        age < SHORTEST_STAY || (self.key == key && age < LONGEST_STAY)
    }
}

/// The last rendering of the history.
#[derive(Debug)]
pub(super) struct HistoryCache {
    pub(super) shared: Arc<Shared>,
    last: Mutex<Option<Cached>>,
}

impl HistoryCache {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, last: Mutex::default() }
    }

    /// The history up to about now.
    pub(super) async fn past(
        &self,
        live: Option<&LiveStatus>,
    ) -> Result<Arc<RenderedHistory>, Unreadable> {
        let key = live.map(|live| (live.round, live.enrolled));
        // A request that comes while it is drawn waits here, and gets the same drawing.
        let mut last = self.last.lock().await;
        if let Some(drawn) = last.as_ref().filter(|drawn| drawn.is_good_for(key)) {
            return Ok(drawn.past.clone());
        }
        let (shared, live) = (self.shared.clone(), live.cloned());
        let look = move || Snapshot::read(&shared.ledger).map(|seen| past(seen, live.as_ref()));
        let past = match tokio::task::spawn_blocking(look).await {
            Ok(Ok(past)) => Arc::new(past),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the page cannot read the ledger");
                return Err(Unreadable);
            }
            Err(error) => {
                tracing::warn!(%error, "the page cannot be drawn");
                return Err(Unreadable);
            }
        };
        *last = Some(Cached { key, at: Instant::now(), past: past.clone() });
        Ok(past)
    }
}

fn past(seen: Snapshot, live: Option<&LiveStatus>) -> RenderedHistory {
    let blocks = draw(&seen, live);
    let version = HEXLOWER.encode(&Sha256::digest(&blocks)[..8]);
    let html = format!("<section id=\"past\" data-version=\"{version}\">\n{blocks}</section>\n");
    RenderedHistory { seen, version, html }
}
