//! A client that does not care for its draw: in every round it asks to join with whatever it has.

use super::Failure;
use agewise_server::crypto::Identity;
use agewise_server::crypto::signing::{RequestSigner, sign_enrolment};
use agewise_server::crypto::vrf::DrawContext;
use agewise_server::protocol::coordinator_client::CoordinatorClient;
use agewise_server::protocol::{
    Announcement, ChallengeRequest, EnrolRequest, FetchModelRequest, JoinRequest, ReportHeader,
    ReportPart, State, WatchRequest, join_reply, report_part,
};
use sha2::{Digest, Sha256};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// The age that it claims: as old as one can be, so that every law would let it in.
const CLAIMED_AGE: u64 = 10;

/// A selfish client that has enrolled and listens.
pub(crate) struct Selfish {
    calls: CoordinatorClient<Channel>,
    identity: Identity,
    signer: RequestSigner,
    client: u32,
    run: Vec<u8>,
    waiting_since: i64,
    announcements: Streaming<Announcement>,
}

impl Selfish {
    /// Enrols, as every client has to.
    pub(crate) async fn enrol(url: &str, name: &str, identity: Identity) -> Result<Self, Failure> {
        let mut calls = CoordinatorClient::connect(url.to_string()).await?;
        let challenge = calls.challenge(ChallengeRequest {}).await?.into_inner().challenge;
        let mut signer = RequestSigner::new(identity.clone(), challenge.clone());
        let request =
            EnrolRequest { name: name.to_string(), samples: 1, challenge, ..Default::default() };
        let reply = calls.enrol(sign_enrolment(request, &identity)).await?.into_inner();
        let (client, run, waiting_since) = (reply.client, reply.run, reply.waiting_since);
        let request = signer.sign(WatchRequest { client, run: run.clone(), call_signature: None });
        let announcements = calls.watch(request).await?.into_inner();
        Ok(Self { calls, identity, signer, client, run, waiting_since, announcements })
    }

    /// Asks in every round, until there are no more.
    pub(crate) async fn play(mut self) -> Result<(), Failure> {
        let mut asked = None;
        while let Some(heard) = self.announcements.message().await? {
            match heard.state() {
                State::Finished => break,
                State::Joining if asked != Some(heard.round) || heard.invited => {
                    asked = Some(heard.round);
                    // The round may end while it tries; there is always another one.
                    self.try_everything(&heard).await.ok();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// First it lies about its age and leaves out the proof; then it tells the truth and shows its draw, won or not.
    async fn try_everything(&mut self, heard: &Announcement) -> Result<(), Status> {
        if self.may_join(heard.round, CLAIMED_AGE, Vec::new()).await? {
            return self.take_part(heard).await;
        }
        let (run, client) = (&self.run, self.client);
        let context = DrawContext { run, round: heard.round, seed: &heard.round_seed, client };
        let (_, proof) = context.draw(&self.identity);
        let age = (heard.round as i64 - self.waiting_since).max(0) as u64;
        if self.may_join(heard.round, age, proof).await? {
            return self.take_part(heard).await;
        }
        Ok(())
    }

    async fn may_join(&mut self, round: u64, age: u64, proof: Vec<u8>) -> Result<bool, Status> {
        let (client, run) = (self.client, self.run.clone());
        let request = JoinRequest { client, run, round, age, proof, call_signature: None };
        let reply = self.calls.join(self.signer.sign(request)).await?.into_inner();
        self.waiting_since = reply.waiting_since;
        Ok(reply.outcome() == join_reply::Outcome::Selected)
    }

    /// Fetches the model, and reports as its training what the others report.
    async fn take_part(&mut self, heard: &Announcement) -> Result<(), Status> {
        let (client, round) = (self.client, heard.round);
        let request =
            FetchModelRequest { client, run: self.run.clone(), round, call_signature: None };
        let mut chunks = self.calls.fetch_model(self.signer.sign(request)).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        let header = self.signer.sign(ReportHeader {
            client,
            run: self.run.clone(),
            round,
            model_version: heard.model_version,
            samples: 1,
            loss: 1.0,
            seconds: 0.0,
            parameters: bytes.len() as u64 / 4,
            sha256: Sha256::digest(&bytes).to_vec(),
            call_signature: None,
        });
        let parts = [report_part::Part::Header(header), report_part::Part::Data(bytes.into())];
        let parts = parts.map(|part| ReportPart { part: Some(part) });
        let reply = self.calls.report(tokio_stream::iter(parts)).await?.into_inner();
        self.waiting_since = reply.waiting_since;
        Ok(())
    }
}
