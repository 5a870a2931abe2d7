//! A client of the fault tests: it listens, and checks that what has to work works.

use crate::common::raw_client::RawClient;
pub(crate) use crate::common::raw_client::{data_part, header_part, parts_of};
use crate::common::site::{bytes_of, numbers_in, soon};
use agewise_server::protocol::{
    Announcement, JoinReply, ReportHeader, ReportPart, ReportReply, State, join_reply, report_part,
    report_reply,
};
use std::ops::{Deref, DerefMut};
use tokio_stream::Stream;
use tonic::{Status, Streaming};

pub(crate) struct Raw {
    base: RawClient,
    pub(crate) client: u32,
    pub(crate) waiting_since: i64,
    pub(crate) announcements: Option<Streaming<Announcement>>,
}

impl Deref for Raw {
    type Target = RawClient;

    fn deref(&self) -> &RawClient {
        &self.base
    }
}

impl DerefMut for Raw {
    fn deref_mut(&mut self) -> &mut RawClient {
        &mut self.base
    }
}

impl Raw {
    /// Enrols over a connection of its own.
    pub(crate) async fn enrol(url: &str, name: &str) -> Self {
        let base = RawClient::enrol(url, name, None).await;
        let (client, waiting_since) = (base.client(), base.reply.waiting_since);
        Self { base, client, waiting_since, announcements: None }
    }

    /// Enrols and listens.
    pub(crate) async fn arrive(url: &str, name: &str) -> Self {
        let mut raw = Self::enrol(url, name).await;
        raw.announcements = Some(raw.base.listen().await);
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
        self.base.join(round, age, &[]).await.unwrap()
    }

    /// Joins, as it is allowed to.
    pub(crate) async fn join(&mut self, round: u64) {
        let reply = self.ask_to_join(round).await;
        assert_eq!(reply.outcome(), join_reply::Outcome::Selected, "{}", reply.why);
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

    /// An honest header for these bytes, with a signature.
    pub(crate) fn header(&self, round: u64, version: u64, bytes: &[u8]) -> ReportHeader {
        self.base.sign(self.base.header(round, version, bytes))
    }

    /// An update in which every number is the same: its header and its data.
    pub(crate) fn update(&self, round: u64, version: u64, value: f32) -> Vec<ReportPart> {
        let bytes = bytes_of(&vec![value; self.base.parameters()]);
        parts_of(self.header(round, version, &bytes), &bytes)
    }

    /// Sends parts that may have been made, and changed, some time ago: the header is signed now.
    pub(crate) async fn send(&mut self, mut parts: Vec<ReportPart>) -> Result<ReportReply, Status> {
        if let Some(ReportPart { part: Some(report_part::Part::Header(header)) }) =
            parts.first_mut()
        {
            *header = self.base.sign(header.clone());
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
