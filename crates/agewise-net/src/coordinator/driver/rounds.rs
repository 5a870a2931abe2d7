//! What happens by itself: rounds begin, close, and become models.

use super::{Driver, Stage};
use crate::coordinator::anchor_fact;
use crate::coordinator::intake::UpdateFiles;
use crate::coordinator::ledger::{NewJoin, ReportRow, RoundEnd, RoundRow};
use crate::coordinator::models::Global;
use crate::coordinator::population::report;
use crate::coordinator::round::{Aggregating, Course, Joining, Member, Round, Windows};
use crate::coordinator::trouble::Trouble;
use crate::hex::hex;
use crate::honesty::seeds::{RoundSeed, narrow};
use crate::proto::{Announcement, Commitment, State};
use agewise_core::{Availability, EmptyCohort, Report, Setting};
use agewise_learn::aggregate::Server;
use agewise_learn::combine::Offered;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

impl Driver {
    /// Does the next thing that is due; `false` if nothing is.
    pub(super) fn step(&mut self, now: Instant) -> Result<bool, Trouble> {
        // A round that is over is taken out, so that it can go through its phases by value.
        let stage = std::mem::replace(&mut self.stage, Stage::Waiting { until: now });
        match stage {
            Stage::Waiting { until } if self.is_due(until, now) => {
                self.begin_round(now)?;
                Ok(true)
            }
            Stage::Joining(round) if self.joining_is_over(&round, now) => {
                self.close_joining(round, now)?;
                Ok(true)
            }
            Stage::Training(round) if round.everyone_reported() || now >= round.report_until => {
                self.end_round(&round.close(), now)?;
                Ok(true)
            }
            unchanged => {
                self.stage = unchanged;
                Ok(false)
            }
        }
    }

    /// Whether enough clients are here for a round.
    pub(super) fn may_begin(&self) -> bool {
        let round = &self.parts.config.params.round;
        let needed = if self.round_number() == 0 { round.clients } else { round.min_reports };
        self.draining.is_none() && self.watchers.len() as u64 >= needed
    }

    fn is_due(&self, until: Instant, now: Instant) -> bool {
        // Right after a start the clients are on their way back.
        let reunited = self.watchers.len() as u32 >= self.known_clients();
        let patience = self.reunion.is_none_or(|until| now >= until);
        self.may_begin() && now >= until && (reunited || patience)
    }

    fn joining_is_over(&self, round: &Round<Joining>, now: Instant) -> bool {
        let is_full = round.selected() >= self.parts.config.max_cohort;
        // Where clients decide nobody knows whether another one comes; who was called is known.
        let is_complete = (!round.rule.is_local() || round.row.forced) && round.everyone_came();
        is_full || is_complete || now >= round.join_until
    }

    /// Announces the next round.
    fn begin_round(&mut self, now: Instant) -> Result<(), Trouble> {
        let number = self.round_number();
        let seed = self.seeds.as_mut().map(|seeds| seeds.seed(number));
        self.commit_to_seeds();
        let config = &self.parts.config;
        let rule = config.rule_params(self.population.len(), self.interval()).build()?;
        let mut called = Vec::new();
        let mut forced = false;
        let mut present = None;
        if !rule.is_local() {
            let (setting, mut policy) = self.population.problem(config)?;
            let mask = self.connected();
            let round = self.seen(&setting, seed.as_ref(), Availability::Only(&mask))?;
            (called, forced) = round.choose(&mut *policy);
            present = Some(mask);
        }
        self.parts.spool.begin(number)?;
        let row = RoundRow {
            round: number,
            settings: self.parts.settings,
            is_joining: true,
            interval: self.interval(),
            clients: self.population.len(),
            seed,
            present,
            model: self.global.version,
            began: (self.parts.wall_clock)(),
            available: self.watchers.len() as u32,
            forced,
        };
        self.parts.ledger.begin_round(&row, &self.population.age_counts())?;
        if let Some(Commitment { chain, next_anchor, .. }) = &self.commitment {
            self.parts.ledger.set_fact(&anchor_fact(chain + 1), hex(next_anchor).as_bytes())?;
        }
        let ages = self.population.ages();
        let mut members = BTreeMap::new();
        for pick in called {
            let age = ages.of(pick.client);
            self.parts.ledger.join(number, pick.client, &NewJoin::called(age, pick.draws))?;
            members.insert(pick.client, Member::called(age, pick.draws));
        }
        let available = row.available;
        self.outbox.push(Box::new(move || tracing::info!(round = number, available, "announced")));
        let windows = Windows::of(&self.parts.config);
        self.announced_interval = row.interval;
        self.parts.gate.draw(number, seed);
        let course = Course::begin(row, rule, members, now, windows);
        self.stage = Stage::Joining(Round::open(course));
        self.news.everyone = true;
        self.reunion = None;
        Ok(())
    }

    /// Ends joining. If nobody has come, a random client that is connected is called, once.
    fn close_joining(&mut self, mut round: Round<Joining>, now: Instant) -> Result<(), Trouble> {
        let number = round.number();
        let may_force = self.parts.config.params.round.empty_cohort == EmptyCohort::ForceOne;
        if round.selected() == 0
            && may_force
            && !round.row.forced
            && let Some((client, present)) = self.forced_client(&round.row)?
        {
            let age = self.population.ages().of(client);
            self.parts.ledger.join(number, client, &NewJoin::called(age, 1))?;
            self.parts.ledger.force(number, &present)?;
            let windows = Windows::of(&self.parts.config);
            round.call(client, age, now, windows);
            tracing::info!(round = number, client, "nobody came: called");
            self.news.clients.push(client);
            self.stage = Stage::Joining(round);
            return Ok(());
        }
        self.parts.ledger.close_joining(number)?;
        self.stage = Stage::Training(round.close());
        Ok(())
    }

    /// A random client of those who are connected, and who these are. Who came after the announcement is not in the round.
    fn forced_client(&self, row: &RoundRow) -> Result<Option<(u32, Vec<bool>)>, Trouble> {
        let (setting, _) = self.population.problem(&self.parts.config)?;
        let mut mask = self.connected();
        mask[row.clients as usize..].fill(false);
        let seed = row.seed.as_ref();
        let client = self.seen(&setting, seed, Availability::Only(&mask))?.forced_client();
        Ok(client.map(|client| (client, mask)))
    }

    /// Makes a model of what was reported, and puts the end of the round into the ledger in one step.
    fn end_round(&mut self, round: &Round<Aggregating>, now: Instant) -> Result<(), Trouble> {
        let number = round.number();
        let reported = round.reported();
        let enough = reported as u64 >= self.parts.config.params.round.min_reports;
        let mut end = RoundEnd {
            round: number,
            committed: false,
            seconds: 0.0,
            evaluation: None,
            weights: Vec::new(),
            model: None,
            note: None,
        };
        let mut next = None;
        let begun = Instant::now();
        let made = if enough {
            // Nobody gets an answer while this takes its time; whoever looks shall see why.
            self.publish_as(State::Aggregating, round.selected(), reported);
            self.combine(round, &mut end)?
        } else {
            let needed = self.parts.config.params.round.min_reports;
            end.note = Some(format!("{reported} reports, {needed} are needed for a model"));
            None
        };
        if let Some((global, server)) = made {
            let global = Global::new(number + 1, global);
            let every = self.parts.config.params.model.eval_every;
            let rounds = self.parts.config.params.round.rounds;
            if every > 0 && ((number + 1).is_multiple_of(every) || number + 1 == rounds) {
                let evaluation = self.parts.model.evaluate(&global.values)?;
                end.evaluation = evaluation
                    .map(|found| (found.loss(), found.accuracy()))
                    .filter(|(loss, accuracy)| loss.is_finite() && accuracy.is_finite());
            }
            end.model = Some(self.parts.models.write(&*self.parts.model, &global, &server)?);
            end.committed = true;
            next = Some((global, server));
        }
        let aggregated = begun.elapsed();
        end.seconds =
            now.saturating_duration_since(round.announced).as_secs_f64() + aggregated.as_secs_f64();
        let sketches = self.sketches(round)?;
        let accepted = accepted(round, &sketches);
        let memory = self.memory_after(round, &accepted)?;
        self.parts.ledger.keep_sketches(number, &sketches)?;
        if !memory.is_empty() {
            self.parts.ledger.keep_memory(&memory)?;
        }
        self.parts.ledger.end_round(&end)?;
        // From here on the round is over, whatever happens: the updates may be removed.
        self.parts.ledger.commit()?;
        let metrics = &self.parts.shared.metrics;
        metrics.end_round(&end, round.selected(), aggregated);
        tracing::info!(
            round = number,
            committed = end.committed,
            selected = round.selected(),
            reported,
            accuracy = end.evaluation.map(|(_, accuracy)| accuracy),
            seconds = end.seconds,
            "over"
        );
        if let Some(note) = &end.note {
            tracing::warn!(round = number, note, "not as it should be");
        }
        self.population.advance(&accepted, memory)?;
        if let Some(calibrator) = &mut self.calibrator {
            calibrator.observe(reported as u64);
        }
        if let Some((global, server)) = next {
            (self.global, self.server) = (global, server);
            self.prune = true;
        }
        let rounds = self.parts.config.params.round.rounds;
        if rounds > 0 && number + 1 >= rounds {
            self.stage = Stage::Finished { since: Instant::now() };
            self.news.everyone = true;
        } else {
            self.stage = Stage::Waiting { until: Instant::now() + self.parts.config.pause() };
        }
        Ok(())
    }

    /// The sketches of the round's updates, where the policy looks at that. Of what is left out of the model there is none.
    fn sketches(&self, round: &Round<Aggregating>) -> Result<BTreeMap<u32, Vec<f32>>, Trouble> {
        let Some(sketches) = &self.parts.sketches else {
            return Ok(BTreeMap::new());
        };
        let (mut clients, mut paths) = (Vec::new(), Vec::new());
        for (&client, member) in &round.members {
            if let Member { report: Some(report), left_out: None, .. } = member {
                clients.push(client);
                paths.push(self.parts.spool.place(round.number(), client, &report.sha256));
            }
        }
        let mut updates = UpdateFiles::new(paths);
        let mut made = BTreeMap::new();
        for (member, client) in clients.into_iter().enumerate() {
            let sketch = sketches.sketch(&self.global.values, &mut updates, member)?;
            made.extend(sketch.map(|sketch| (client, sketch)));
        }
        Ok(made)
    }

    /// What the policy remembers after a round.
    fn memory_after(
        &self,
        round: &Round<Aggregating>,
        accepted: &[Report<'_>],
    ) -> Result<Vec<f64>, Trouble> {
        let config = &self.parts.config;
        if round.rule.is_local() || !self.population.remembers(config, accepted)? {
            return Ok(Vec::new());
        }
        // Since the round began clients may have enrolled or told other sizes; an audit knows only how it began.
        let samples = self.parts.ledger.sizes_in(round.number(), round.row.clients)?;
        Ok(self.population.memory_after(config, &samples, accepted)?)
    }

    /// The next model and the server's next memory, if enough updates can be used. Notes weights, and updates that cannot.
    fn combine(
        &self,
        round: &Round<Aggregating>,
        end: &mut RoundEnd,
    ) -> Result<Option<(Vec<f32>, Server)>, Trouble> {
        let config = &self.parts.config;
        let (setting, policy) = self.population.problem(config)?;
        let picks = round.picks();
        let seen = self.seen(&setting, round.row.seed.as_ref(), Availability::Everyone)?;
        let weights = seen.weigh(&*policy, config.weighting, &picks);
        let mut members = Vec::new();
        let mut paths = Vec::new();
        for (pick, &weight) in picks.iter().zip(&weights) {
            let member = round.members.get(&pick.client);
            let report = member.and_then(|member| member.report.as_ref());
            let missing = match (report, member) {
                (None, _) => Some("no report".to_string()),
                (_, Some(Member { left_out: Some(why), .. })) => Some((*why).to_string()),
                _ => None,
            };
            members.push(Offered { client: pick.client, weight, missing });
            let sha256 = report.map_or(&[][..], |report| &report.sha256);
            paths.push(self.parts.spool.place(round.number(), pick.client, sha256));
        }
        let mut global = self.global.values.to_vec();
        let mut server = self.server.clone();
        let mut files = UpdateFiles::new(paths);
        let memory = config.memory();
        let taken = config.combine.apply(&members, &mut files, memory, &mut server, &mut global)?;
        let usable = taken.iter().filter(|taken| taken.is_ok()).count();
        let awaited =
            |client: u32| round.members.get(&client).is_some_and(|member| member.report.is_some());
        if let Some(error) = files.failed() {
            // It is there, and whole when the run last began: this is the disk's fault, not the update's.
            return Err(error);
        }
        let unusable = taken.into_iter().filter_map(Result::err);
        let unusable: Vec<String> =
            unusable.filter(|why| awaited(why.client)).map(|why| why.to_string()).collect();
        if !unusable.is_empty() {
            end.note = Some(unusable.join("; "));
        }
        if (usable as u64) < config.params.round.min_reports {
            return Ok(None);
        }
        end.weights = picks.iter().map(|pick| pick.client).zip(weights).collect();
        Ok(Some((global, server)))
    }

    /// The present round as policies see it.
    fn seen<'a>(
        &'a self,
        setting: &'a Setting,
        seed: Option<&RoundSeed>,
        availability: Availability<'a>,
    ) -> Result<agewise_core::Round<'a>, Trouble> {
        let (ages, reports) = (self.population.ages(), self.population.reports());
        let seed = seed.map_or(self.parts.config.seed(), narrow);
        Ok(agewise_core::Round::new(setting, seed, ages, availability, reports)?)
    }

    /// Who is connected, by number; who was revoked is not.
    fn connected(&self) -> Vec<bool> {
        let mut mask = vec![false; self.population.len() as usize];
        for &client in self.watchers.keys() {
            if let Some(place) = mask.get_mut(client as usize) {
                *place = true;
            }
        }
        mask
    }

    /// Tells those who have to know.
    pub(super) fn spread_news(&mut self) {
        let news = std::mem::take(&mut self.news);
        let now = Instant::now();
        let mut announced = 0;
        let clients: Vec<u32> =
            if news.everyone { self.watchers.keys().copied().collect() } else { news.clients };
        // The same for all, and found by looking at every client.
        let interval = self.told_interval();
        for client in clients {
            let announcement = self.announcement_with(interval, client, now);
            if let Some(watcher) = self.watchers.get(&client) {
                // Nobody listens if the connection has just ended.
                watcher.sender.send(announcement).ok();
                if matches!(self.stage, Stage::Finished { .. }) {
                    self.told_end.insert(client);
                }
                announced += 1;
            }
        }
        self.parts.shared.metrics.announcements.inc_by(announced);
    }

    /// What a client is told now.
    pub(super) fn announcement(&self, client: u32, now: Instant) -> Announcement {
        self.announcement_with(self.told_interval(), client, now)
    }

    /// The interval that clients are told: that of the round under way, as it was announced.
    fn told_interval(&self) -> f64 {
        self.stage.course().map_or_else(|| self.interval(), |course| course.row.interval)
    }

    fn announcement_with(&self, interval: f64, client: u32, now: Instant) -> Announcement {
        let mut announcement = Announcement {
            run: self.parts.run.clone(),
            state: self.announced_state().into(),
            round: self.round_number(),
            // Proven lots have a seed when there is a round for it.
            seed: if self.seeds.is_some() { 0 } else { self.parts.config.seed().0 },
            clients: self.population.len(),
            cohort: self.parts.config.params.round.cohort as u32,
            interval,
            model_version: self.global.version,
            model_sha256: self.global.sha256.to_vec(),
            ..Announcement::default()
        };
        let left = |until: Instant| millis(until.saturating_duration_since(now));
        if let Some(course) = self.stage.course() {
            announcement.clients = course.row.clients;
            announcement.report_millis = left(course.report_until);
            announcement.called = course.awaits(client);
            if let Some(seed) = &course.row.seed {
                announcement.seed = narrow(seed).0;
                announcement.round_seed = seed.to_vec();
                announcement.seeds.clone_from(&self.commitment);
            }
        }
        if let Stage::Joining(round) = &self.stage {
            announcement.join_millis = left(round.join_until);
        }
        announcement
    }
}

/// The reports of a round as policies see them.
fn accepted<'a>(
    round: &Round<Aggregating>,
    sketches: &'a BTreeMap<u32, Vec<f32>>,
) -> Vec<Report<'a>> {
    let report = |(&client, member): (&u32, &Member)| {
        let ReportRow { loss, seconds, .. } = member.report.as_ref()?;
        let sketch = sketches.get(&client).map(Vec::as_slice);
        Some(Report { sketch, ..report(client, *loss, *seconds) })
    };
    round.members.iter().filter_map(report).collect()
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
