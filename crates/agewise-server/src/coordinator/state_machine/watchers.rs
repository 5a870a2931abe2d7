//! The clients that are connected: each listens to announcements on one stream.

use crate::protocol::Announcement;
use std::collections::HashMap;
use std::time::Instant;
use tokio::sync::watch;

/// A client that listens.
#[derive(Debug)]
struct Watcher {
    token: u64,
    sender: watch::Sender<Announcement>,
}

/// The clients that listen, by number, and the same as policies want it.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    by_client: HashMap<u32, Watcher>,
    /// When the last stream of a client ended that has none since.
    ended: HashMap<u32, Instant>,
    present: Vec<bool>,
    next_token: u64,
}

impl Watchers {
    pub(super) fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Whether a client listens, as far as is known.
    pub(super) fn has(&self, client: u32) -> bool {
        self.by_client.contains_key(&client)
    }

    /// Whether a client listens on a stream that lives.
    pub(super) fn is_listening(&self, client: u32) -> bool {
        self.by_client.get(&client).is_some_and(|watcher| !watcher.sender.is_closed())
    }

    /// A client listens from now on, beginning with this announcement. The token is of this stream.
    pub(super) fn insert(
        &mut self,
        client: u32,
        first: Announcement,
    ) -> (u64, watch::Receiver<Announcement>) {
        let token = self.next_token;
        self.next_token += 1;
        let (sender, announcements) = watch::channel(first);
        self.by_client.insert(client, Watcher { token, sender });
        self.ended.remove(&client);
        self.mark(client, true);
        (token, announcements)
    }

    /// A client does not listen any more.
    pub(super) fn remove(&mut self, client: u32) {
        self.by_client.remove(&client);
        self.mark(client, false);
    }

    /// A stream has ended; its client may listen on another one already.
    pub(super) fn end_stream(&mut self, client: u32, token: u64, now: Instant) {
        if self.by_client.get(&client).is_some_and(|watcher| watcher.token == token) {
            self.remove(client);
            self.ended.insert(client, now);
        }
    }

    /// When the stream of a client ended that does not listen; none if it has had no stream.
    pub(super) fn ended(&self, client: u32) -> Option<Instant> {
        self.ended.get(&client).copied()
    }

    /// Forgets those whose streams have ended.
    pub(super) fn retain_open(&mut self, now: Instant) {
        let closed = self.by_client.iter().filter(|(_, watcher)| watcher.sender.is_closed());
        for client in closed.map(|(&client, _)| client).collect::<Vec<_>>() {
            self.remove(client);
            self.ended.insert(client, now);
        }
    }

    /// All clients that listen.
    pub(super) fn clients(&self) -> impl Iterator<Item = u32> {
        self.by_client.keys().copied()
    }

    /// Tells a client, if it listens.
    pub(super) fn send(&self, client: u32, announcement: Announcement) -> bool {
        let watcher = self.by_client.get(&client);
        if let Some(watcher) = watcher {
            // The connection may have just ended.
            watcher.sender.send(announcement).ok();
        }
        watcher.is_some()
    }

    /// A mask of the clients that listen, of so many.
    pub(super) fn present(&mut self, clients: u32) -> &[bool] {
        self.present.resize(clients as usize, false);
        &self.present
    }

    fn mark(&mut self, client: u32, is_present: bool) {
        let place = client as usize;
        if self.present.len() <= place {
            self.present.resize(place + 1, false);
        }
        self.present[place] = is_present;
    }
}
