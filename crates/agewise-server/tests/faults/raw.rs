//! A client that does exactly what a test tells it, also what no decent client would do.

use super::site::{bytes_of, numbers_in, soon};
use agewise_server::crypto::Identity;
use agewise_server::crypto::signing::{RequestSigner, sign_enrolment};
use agewise_server::protocol::coordinator_client::CoordinatorClient;
use agewise_server::protocol::{
    Announcement, ChallengeRequest, EnrolRequest, FetchModelRequest, JoinReply, JoinRequest,
    ReportHeader, ReportPart, ReportReply, State, WatchRequest, join_reply, report_part,
    report_reply,
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// How updates are cut.
const CHUNK: usize = 256 << 10;

/// The key of a client, which follows from its name.
fn identity(name: &str) -> Identity {
    Identity::from_secret(Sha256::digest(name).into())
}

/// An enrolment that is signed for this coordinator.
pub(crate) async fn enrolment(
    calls: &mut CoordinatorClient<Channel>,
    name: &str,
    samples: u64,
) -> EnrolRequest {
    let challenge = soon("a challenge", calls.challenge(ChallengeRequest {})).await.unwrap();
    let challenge = challenge.into_inner().challenge;
    let request =
        EnrolRequest { name: name.to_string(), samples, challenge, ..EnrolRequest::default() };
    sign_enrolment(request, &identity(name))
}

pub(crate) struct Raw {
    signer: Mutex<RequestSigner>,
    pub(crate) calls: CoordinatorClient<Channel>,
    pub(crate) client: u32,
    pub(crate) run: Vec<u8>,
    pub(crate) waiting_since: i64,
    pub(crate) parameters: usize,
    pub(crate) announcements: Option<Streaming<Announcement>>,
}

impl Raw {
    /// Enrols over a connection of its own. The coordinator may still be on its way.
    pub(crate) async fn enrol(url: &str, name: &str) -> Self {
        let connecting = async {
            loop {
                if let Ok(calls) = CoordinatorClient::connect(url.to_string()).await {
                    return calls;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let mut calls = soon("a connection", connecting).await;
        let request = enrolment(&mut calls, name, 10).await;
        let signer = Mutex::new(RequestSigner::new(identity(name), request.challenge.clone()));
        let reply = soon("enrolling", calls.enrol(request)).await.unwrap().into_inner();
        Self {
            signer,
            calls,
            client: reply.client,
            run: reply.run,
            waiting_since: reply.waiting_since,
            parameters: reply.task.unwrap().parameters as usize,
            announcements: None,
        }
    }

    /// Enrols and listens.
    pub(crate) async fn arrive(url: &str, name: &str) -> Self {
        let mut raw = Self::enrol(url, name).await;
        let request =
            WatchRequest { client: raw.client, run: raw.run.clone(), call_signature: None };
        let request = raw.signer.lock().sign(request);
        let stream = soon("listening", raw.calls.watch(request)).await.unwrap().into_inner();
        raw.announcements = Some(stream);
        raw
    }

    /// Several of them, in this order.
    pub(crate) async fn crowd(url: &str, names: &[&str]) -> Vec<Self> {
        let mut all = Vec::new();
        for name in names {
            all.push(Self::arrive(url, name).await);
        }
        all
    }

    /// The first announcement that is as wanted.
    pub(crate) async fn hear(
        &mut self,
        what: &str,
        wanted: impl Fn(&Announcement) -> bool,
    ) -> Announcement {
        let stream = self.announcements.as_mut().unwrap();
        let hearing = async {
            loop {
                let heard = stream.message().await.unwrap().expect("the stream goes on");
                if wanted(&heard) {
                    return heard;
                }
            }
        };
        soon(what, hearing).await
    }

    /// The announcement of a round that can be joined.
    pub(crate) async fn round(&mut self, round: u64) -> Announcement {
        let open =
            move |heard: &Announcement| heard.round == round && heard.state() == State::Joining;
        self.hear(&format!("round {round}"), open).await
    }

    pub(crate) async fn ask_to_join(&mut self, round: u64) -> JoinReply {
        let age = (round as i64 - self.waiting_since) as u64;
        let (client, run) = (self.client, self.run.clone());
        let request =
            JoinRequest { client, run, round, age, proof: Vec::new(), call_signature: None };
        let request = self.signer.lock().sign(request);
        soon("joining", self.calls.join(request)).await.unwrap().into_inner()
    }

    /// Joins, as it is allowed to.
    pub(crate) async fn join(&mut self, round: u64) {
        let reply = self.ask_to_join(round).await;
        assert_eq!(reply.outcome(), join_reply::Outcome::Selected, "{}", reply.why);
    }

    pub(crate) fn fetch_request(&self, round: u64) -> FetchModelRequest {
        let (client, run) = (self.client, self.run.clone());
        let request = FetchModelRequest { client, run, round, call_signature: None };
        self.signer.lock().sign(request)
    }

    pub(crate) async fn fetch(&mut self, round: u64) -> Vec<f32> {
        let request = self.fetch_request(round);
        let mut chunks =
            soon("a model", self.calls.fetch_model(request)).await.unwrap().into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = soon("a chunk", chunks.message()).await.unwrap() {
            bytes.extend_from_slice(&chunk.data);
        }
        numbers_in(&bytes)
    }

    /// An honest header for these bytes.
    pub(crate) fn header(&self, round: u64, version: u64, bytes: &[u8]) -> ReportHeader {
        self.sign(ReportHeader {
            client: self.client,
            run: self.run.clone(),
            round,
            model_version: version,
            samples: 10,
            loss: 0.5,
            seconds: 0.25,
            parameters: bytes.len() as u64 / 4,
            sha256: Sha256::digest(bytes).to_vec(),
            call_signature: None,
        })
    }

    /// The header with a signature of this moment.
    fn sign(&self, header: ReportHeader) -> ReportHeader {
        self.signer.lock().sign(header)
    }

    /// An update in which every number is the same: its header and its data.
    pub(crate) fn update(&self, round: u64, version: u64, value: f32) -> Vec<ReportPart> {
        let bytes = bytes_of(&vec![value; self.parameters]);
        report_of(self.header(round, version, &bytes), &bytes)
    }

    /// Sends parts that may have been made, and changed, some time ago: the header is signed now.
    pub(crate) async fn send(&mut self, mut parts: Vec<ReportPart>) -> Result<ReportReply, Status> {
        if let Some(ReportPart { part: Some(report_part::Part::Header(header)) }) =
            parts.first_mut()
        {
            *header = self.sign(header.clone());
        }
        self.stream(tokio_stream::iter(parts)).await
    }

    pub(crate) async fn stream(
        &mut self,
        parts: impl Stream<Item = ReportPart> + Send + 'static,
    ) -> Result<ReportReply, Status> {
        soon("a reply", self.calls.report(parts)).await.map(tonic::Response::into_inner)
    }

    /// Sends something that has to be refused, and gives the reason.
    pub(crate) async fn refused(&mut self, parts: Vec<ReportPart>) -> String {
        let reply = self.send(parts).await.unwrap();
        assert_eq!(reply.outcome(), report_reply::Outcome::Refused, "{}", reply.why);
        assert_eq!(reply.waiting_since, self.waiting_since, "the age stays");
        reply.why
    }

    /// Sends an update that has to be accepted.
    pub(crate) async fn report(&mut self, round: u64, version: u64, value: f32) {
        let reply = self.send(self.update(round, version, value)).await.unwrap();
        assert_eq!(reply.outcome(), report_reply::Outcome::Accepted, "{}", reply.why);
        assert_eq!(reply.waiting_since, round as i64 + 1);
        self.waiting_since = reply.waiting_since;
    }
}

pub(crate) fn header_part(header: ReportHeader) -> ReportPart {
    ReportPart { part: Some(report_part::Part::Header(header)) }
}

pub(crate) fn data_part(bytes: &[u8]) -> ReportPart {
    ReportPart { part: Some(report_part::Part::Data(bytes.to_vec().into())) }
}

/// A header, and bytes in chunks.
pub(crate) fn report_of(header: ReportHeader, bytes: &[u8]) -> Vec<ReportPart> {
    std::iter::once(header_part(header)).chain(bytes.chunks(CHUNK).map(data_part)).collect()
}
