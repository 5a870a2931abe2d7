//! One round of a client: it decides, joins, fetches the model, trains and reports.

use super::Event;
use super::session::{ClientSession, SessionError, UndeliveredUpdate, describe, short};
use crate::client::ClientError;
use crate::crypto::vrf::DrawContext;
use crate::protocol::coordinator_client::CoordinatorClient;
use crate::protocol::parameters::{from_bytes, to_bytes};
use crate::protocol::{
    Announcement, DrawSource, FetchModelRequest, JoinRequest, ParticipationParams, ReportHeader,
    ReportPart, State, join_reply, max_age_from_wire, report_part, report_reply, seeded_draw,
};
use agewise_core::{Error, Seed};
use agewise_train::task::{PartitionKey, TrainJob};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// How an update is cut on its way to the coordinator.
const CHUNK: usize = 256 << 10;

impl ClientSession {
    /// Makes the draw of a round, and joins if it wins.
    pub(super) async fn decide(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
        announcement: &Announcement,
    ) -> Result<(), SessionError> {
        let round = announcement.round;
        // Twice at most: after a correction of the age the decision may be another one.
        for _ in 0..2 {
            let Ok(age) = u64::try_from(round as i64 - self.state.waiting_since) else {
                // Credited in this round already.
                return Ok(());
            };
            let won = self.draw(announcement, age)?;
            let back_off = announcement.back_off.clone().unwrap_or_default();
            let waits = back_off.eligible_from > round || !back_off.suspended.is_empty();
            if waits && !announcement.invited {
                return Ok(());
            }
            if !announcement.invited && won.is_none() {
                return Ok(());
            }
            let request = JoinRequest {
                client: self.state.client,
                run: self.run.clone(),
                round,
                age,
                proof: won.unwrap_or_default(),
                call_signature: None,
            };
            let request = self.signer.sign(request);
            let reply = coordinator.join(short(request)).await?.into_inner();
            let corrected = self.state.waiting_since != reply.waiting_since;
            self.remember(reply.waiting_since)?;
            match reply.outcome() {
                join_reply::Outcome::Selected => {
                    self.tell(Event::Joined { round, age });
                    return self.take_part(coordinator, announcement).await;
                }
                join_reply::Outcome::Reported => return Ok(()),
                join_reply::Outcome::Refused if corrected => {}
                outcome => {
                    let why = match outcome {
                        join_reply::Outcome::Closed => "joining is over".to_string(),
                        _ => reply.why,
                    };
                    self.tell(Event::NotJoined { round, why });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Draws. `Some` is the proof of one that wins; it is empty where draws need none.
    fn draw(
        &mut self,
        announcement: &Announcement,
        age: u64,
    ) -> Result<Option<Vec<u8>>, SessionError> {
        let Some((spec, _)) = &self.task else {
            return Ok(None);
        };
        let is_proven = spec.draws() == DrawSource::Proven;
        let decides = !spec.coordinator_selects;
        let (policy, max_age) = (spec.policy.clone(), spec.max_age);
        let round = announcement.round;
        // Also a client that does not take part checks that the coordinator keeps to its seeds.
        let seed = if is_proven { Some(self.check_seed(announcement)?) } else { None };
        if announcement.state() != State::Joining || announcement.invited || !decides {
            return Ok(None);
        }
        let params = ParticipationParams {
            policy: policy.parse()?,
            max_age: max_age_from_wire(max_age),
            clients: announcement.clients,
            cohort: announcement.cohort,
            interval: announcement.interval,
        };
        let rule = match self.rule.take() {
            Some((known, rule)) if known == params => rule,
            _ => params.build()?,
        };
        let client = self.state.client;
        let won = if rule.may_take_part(age) {
            let (drawn, proof) = match &seed {
                Some(seed) => {
                    DrawContext { run: &self.run, round, seed, client }.draw(&self.identity)
                }
                None => (seeded_draw(Seed(announcement.seed), round, client), Vec::new()),
            };
            rule.takes_part(round, client, age, drawn).then_some(proof)
        } else {
            None
        };
        self.rule = Some((params, rule));
        Ok(won)
    }

    /// Fetches, trains and reports.
    async fn take_part(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
        announcement: &Announcement,
    ) -> Result<(), SessionError> {
        let Announcement { round, seed, model_version, .. } = *announcement;
        let parameters = match self.fetch(coordinator, announcement).await {
            Err(SessionError::Call(status)) if status.code() == Code::Aborted => {
                // The round has ended since this client joined.
                self.tell(Event::NotAccepted { round, why: describe(&status) });
                return Ok(());
            }
            fetched => fetched?,
        };
        let Some((_, task)) = self.task.clone() else {
            return Ok(());
        };
        let client = self.state.client;
        let key = PartitionKey { seed: Seed(seed), clients: announcement.clients };
        let training = move || {
            let mut parameters = parameters;
            let begun = Instant::now();
            let trained = task.train(&TrainJob::round(key, round, client), &mut parameters)?;
            let bytes = Bytes::from(to_bytes(&parameters));
            let sha256 = Sha256::digest(&bytes).to_vec();
            Ok::<_, Error>((trained, begun.elapsed(), bytes, sha256))
        };
        let trained = tokio::task::spawn_blocking(training).await;
        let (trained, time, bytes, sha256) = match trained.map_err(|_| ClientError::Panicked)? {
            Ok(trained) => trained,
            Err(error) => {
                // The round goes on without this client; the next one may be better.
                self.tell(Event::NotAccepted { round, why: error.to_string() });
                return Ok(());
            }
        };
        let header = ReportHeader {
            client,
            run: self.run.clone(),
            round,
            model_version,
            samples: trained.samples,
            loss: trained.loss,
            seconds: time.as_secs_f64(),
            parameters: bytes.len() as u64 / 4,
            sha256,
            call_signature: None,
        };
        self.pending = Some(UndeliveredUpdate { header, bytes });
        self.deliver(coordinator).await
    }

    /// The model of the round, checked.
    async fn fetch(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
        announcement: &Announcement,
    ) -> Result<Vec<f32>, SessionError> {
        let request = FetchModelRequest {
            client: self.state.client,
            run: self.run.clone(),
            round: announcement.round,
            call_signature: None,
        };
        let request = self.signer.sign(request);
        let size = 4 * self.task.as_ref().map_or(0, |(spec, _)| spec.parameters) as usize;
        let mut chunks = coordinator.fetch_model(request).await?.into_inner();
        let mut bytes = Vec::with_capacity(size);
        while let Some(chunk) = chunks.message().await? {
            if bytes.len() + chunk.data.len() > size {
                return Err(Status::data_loss("the model is larger than announced").into());
            }
            bytes.extend_from_slice(&chunk.data);
        }
        if bytes.len() != size || Sha256::digest(&bytes).as_slice() != announcement.model_sha256 {
            return Err(Status::data_loss("the model is not the one that was announced").into());
        }
        Ok(from_bytes(&bytes))
    }

    /// Delivers the update that is waiting. It stays if the connection breaks, and is delivered in the next session.
    pub(super) async fn deliver(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
    ) -> Result<(), SessionError> {
        let Some(pending) = &self.pending else {
            return Ok(());
        };
        let round = pending.header.round;
        let header = self.signer.sign(pending.header.clone());
        let header = ReportPart { part: Some(report_part::Part::Header(header)) };
        let bytes = pending.bytes.clone();
        let parts = (0..bytes.len()).step_by(CHUNK).map(move |begin| {
            let end = bytes.len().min(begin + CHUNK);
            ReportPart { part: Some(report_part::Part::Data(bytes.slice(begin..end))) }
        });
        let stream = tokio_stream::iter(std::iter::once(header).chain(parts));
        let reply = coordinator.report(stream).await?.into_inner();
        self.pending = None;
        // It is so, whether it can be written down or not.
        self.tell(match reply.outcome() {
            report_reply::Outcome::Accepted => Event::Accepted { round },
            _ => Event::NotAccepted { round, why: reply.why },
        });
        Ok(self.remember(reply.waiting_since)?)
    }
}
