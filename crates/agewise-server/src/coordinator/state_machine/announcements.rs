//! Announcements to clients.

use super::{Driver, Phase};
use crate::crypto::seed_chain::narrow;
use crate::protocol::Announcement;
use std::time::{Duration, Instant};

impl Driver {
    /// Sends the pending announcements.
    pub(super) fn notify(&mut self) {
        let pending = std::mem::take(&mut self.notifications);
        let now = Instant::now();
        let mut announced = 0;
        let clients: Vec<u32> =
            if pending.everyone { self.watchers.clients().collect() } else { pending.clients };
        // The same for all, and found by looking at every client.
        let interval = self.told_interval();
        for client in clients {
            let announcement = self.announcement_with(interval, client, now);
            if self.watchers.send(client, announcement) {
                if matches!(self.phase, Phase::Finished { .. }) {
                    self.notified_end.insert(client);
                }
                announced += 1;
            }
        }
        self.deps.shared.metrics.announcements.inc_by(announced);
    }

    /// The present announcement for a client.
    pub(super) fn announcement(&self, client: u32, now: Instant) -> Announcement {
        self.announcement_with(self.told_interval(), client, now)
    }

    /// The interval that clients are told: that of the round under way, as it was announced.
    fn told_interval(&self) -> f64 {
        self.phase.round().map_or_else(|| self.interval(), |round| round.row.interval)
    }

    fn announcement_with(&self, interval: f64, client: u32, now: Instant) -> Announcement {
        let mut announcement = Announcement {
            run: self.deps.run.clone(),
            state: self.announced_state().into(),
            round: self.round_number(),
            // Proven draws have a seed when there is a round for it.
            seed: if self.seeds.is_some() { 0 } else { self.deps.config.seed().0 },
            clients: self.selection.clients(),
            cohort: self.deps.config.params.round.cohort as u32,
            interval,
            model_version: self.global.version,
            model_sha256: self.global.sha256.to_vec(),
            back_off: Some(self.back_off(client)),
            ..Announcement::default()
        };
        let left = |until: Instant| millis(until.saturating_duration_since(now));
        if let Some(round) = self.phase.round() {
            announcement.clients = round.row.clients;
            announcement.report_millis = left(round.report_until);
            announcement.invited = round.awaits(client);
            if let Some(seed) = &round.row.seed {
                announcement.seed = narrow(seed).0;
                announcement.round_seed = seed.to_vec();
                announcement.seeds.clone_from(&self.commitment);
            }
        }
        if let Phase::Joining(round) = &self.phase {
            announcement.join_millis = left(round.join_until);
        }
        announcement
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
