//! A client that has a key and makes exactly the calls that a test wants, also wrong ones.

use super::site::{bytes_of, connect, soon};
use agewise_server::crypto::Identity;
use agewise_server::crypto::signing::{RequestSigner, SignedRequest, sign_enrolment};
use agewise_server::crypto::token::Token;
use agewise_server::protocol::coordinator_client::CoordinatorClient;
use agewise_server::protocol::{
    Announcement, ChallengeRequest, EnrolReply, EnrolRequest, FetchModelRequest, JoinReply,
    JoinRequest, ReportHeader, ReportPart, ReportReply, WatchRequest, report_part,
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// The samples that every client reports.
pub(crate) const SAMPLES: u64 = 10;

/// The key of a client, which follows from its name.
pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_secret(Sha256::digest(name).into())
}

pub(crate) async fn challenge(calls: &mut CoordinatorClient<Channel>) -> Result<Vec<u8>, Status> {
    let reply = soon("a challenge", calls.challenge(ChallengeRequest {})).await?;
    Ok(reply.into_inner().challenge)
}

/// An enrolment that is signed for this challenge.
pub(crate) fn enrolment(
    challenge: Vec<u8>,
    name: &str,
    identity: &Identity,
    token: Option<&Token>,
) -> EnrolRequest {
    let request = EnrolRequest {
        name: name.to_string(),
        samples: SAMPLES,
        token: token.map_or_else(String::new, Token::reveal),
        challenge,
        ..EnrolRequest::default()
    };
    sign_enrolment(request, identity)
}

/// A client with a connection, a key and a session.
pub(crate) struct RawClient {
    pub(crate) identity: Identity,
    signer: Mutex<RequestSigner>,
    pub(crate) calls: CoordinatorClient<Channel>,
    pub(crate) enrolment: EnrolRequest,
    pub(crate) reply: EnrolReply,
}

impl RawClient {
    /// Enrols, or fails to.
    pub(crate) async fn try_enrol(
        url: &str,
        name: &str,
        identity: &Identity,
        token: Option<&Token>,
    ) -> Result<Self, Status> {
        Self::enrol_over(connect(url).await, name, identity, token).await
    }

    /// Enrols over a connection, or fails to.
    pub(crate) async fn enrol_over(
        mut calls: CoordinatorClient<Channel>,
        name: &str,
        identity: &Identity,
        token: Option<&Token>,
    ) -> Result<Self, Status> {
        let challenge = challenge(&mut calls).await?;
        let enrolment = enrolment(challenge.clone(), name, identity, token);
        let reply = soon("enrolling", calls.enrol(enrolment.clone())).await?.into_inner();
        let signer = Mutex::new(RequestSigner::new(identity.clone(), challenge));
        Ok(Self { identity: identity.clone(), signer, calls, enrolment, reply })
    }

    /// Enrols under its name, with the key that follows from it.
    pub(crate) async fn enrol(url: &str, name: &str, token: Option<&Token>) -> Self {
        Self::try_enrol(url, name, &identity(name), token).await.unwrap()
    }

    /// Another connection, on which the session is not good.
    pub(crate) async fn reconnect(&mut self, url: &str) {
        self.calls = connect(url).await;
    }

    pub(crate) fn client(&self) -> u32 {
        self.reply.client
    }

    pub(crate) fn run(&self) -> Vec<u8> {
        self.reply.run.clone()
    }

    pub(crate) fn parameters(&self) -> usize {
        self.reply.task.as_ref().unwrap().parameters as usize
    }

    pub(crate) fn age(&self, round: u64) -> u64 {
        (round as i64 - self.reply.waiting_since) as u64
    }

    pub(crate) fn sign<M: SignedRequest>(&self, message: M) -> M {
        self.signer.lock().sign(message)
    }

    pub(crate) fn join_request(&self, round: u64, age: u64, proof: &[u8]) -> JoinRequest {
        let (client, run) = (self.client(), self.run());
        JoinRequest { client, run, round, age, proof: proof.to_vec(), call_signature: None }
    }

    pub(crate) async fn join(
        &mut self,
        round: u64,
        age: u64,
        proof: &[u8],
    ) -> Result<JoinReply, Status> {
        let request = self.join_request(round, age, proof);
        let request = self.sign(request);
        soon("joining", self.calls.join(request)).await.map(tonic::Response::into_inner)
    }

    pub(crate) fn watch_request(&self) -> WatchRequest {
        let request = WatchRequest { client: self.client(), run: self.run(), call_signature: None };
        self.sign(request)
    }

    /// Listens, and so counts as connected.
    pub(crate) async fn listen(&mut self) -> Streaming<Announcement> {
        let request = self.watch_request();
        soon("listening", self.calls.watch(request)).await.unwrap().into_inner()
    }

    pub(crate) fn fetch_request(&self, round: u64) -> FetchModelRequest {
        let (client, run) = (self.client(), self.run());
        self.sign(FetchModelRequest { client, run, round, call_signature: None })
    }

    /// The header of an update, without a signature.
    pub(crate) fn header(&self, round: u64, version: u64, bytes: &[u8]) -> ReportHeader {
        ReportHeader {
            client: self.client(),
            run: self.run(),
            round,
            model_version: version,
            samples: SAMPLES,
            loss: 0.5,
            seconds: 0.25,
            parameters: bytes.len() as u64 / 4,
            sha256: Sha256::digest(bytes).to_vec(),
            call_signature: None,
        }
    }

    /// Reports an update in which every number is the same.
    pub(crate) async fn report(
        &mut self,
        round: u64,
        version: u64,
        value: f32,
    ) -> Result<ReportReply, Status> {
        let bytes = bytes_of(&vec![value; self.parameters()]);
        let header = self.header(round, version, &bytes);
        self.send(header, &bytes).await
    }

    /// Signs a header, and sends it and these bytes.
    pub(crate) async fn send(
        &mut self,
        header: ReportHeader,
        bytes: &[u8],
    ) -> Result<ReportReply, Status> {
        let header = self.sign(header);
        let parts = parts_of(header, bytes);
        soon("a reply", self.calls.report(tokio_stream::iter(parts)))
            .await
            .map(tonic::Response::into_inner)
    }
}

pub(crate) fn header_part(header: ReportHeader) -> ReportPart {
    ReportPart { part: Some(report_part::Part::Header(header)) }
}

pub(crate) fn data_part(bytes: &[u8]) -> ReportPart {
    ReportPart { part: Some(report_part::Part::Data(bytes.to_vec().into())) }
}

/// A header, and bytes in chunks.
pub(crate) fn parts_of(header: ReportHeader, bytes: &[u8]) -> Vec<ReportPart> {
    std::iter::once(header_part(header)).chain(bytes.chunks(256 << 10).map(data_part)).collect()
}
