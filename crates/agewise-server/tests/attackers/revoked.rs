//! A revoked client goes on: in the middle of an upload, and after it has reported.

use crate::common::folder;
use crate::common::raw_client::{RawClient, data_part, header_part, identity};
use crate::common::site::{Site, bytes_of, settings, soon};
use agewise_server::coordinator::Admin;
use agewise_server::crypto::token::{Role, Token};
use agewise_server::protocol::{Announcement, report_reply};
use agewise_server::remote::{RemoteError, revoke};
use agewise_server::tls::Trust;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Code, Streaming};

const PARAMETERS: usize = 1_000;

struct Round {
    site: Site,
    crowd: Vec<(RawClient, Streaming<Announcement>)>,
    operator: Token,
    observer: Token,
}

impl Round {
    /// One round with a, b and c in it; all have joined.
    async fn begin(name: &str) -> Self {
        let state = folder(name);
        let mut params = settings(&state, 3, 3);
        params.round.rounds = 1;
        let mut admin = Admin::open(&state).unwrap();
        let operator = admin.invite(Role::Operator, None, 1).unwrap().remove(0);
        let observer = admin.invite(Role::Observer, None, 1).unwrap().remove(0);
        let site = Site::open(params, PARAMETERS).await;
        let mut crowd = Vec::new();
        for name in ["a", "b", "c"] {
            let mut client = RawClient::enrol(&site.url, name, None).await;
            let stream = client.listen().await;
            crowd.push((client, stream));
        }
        site.until("SELECT COUNT(*) FROM rounds", 1).await;
        for (client, _) in &mut crowd {
            let reply = client.join(0, client.age(0), &[]).await.unwrap();
            assert_eq!(reply.why, "");
        }
        Self { site, crowd, operator, observer }
    }

    /// Revokes c over the network, after an observer has tried it.
    async fn revoke(&self) {
        let trust = Trust::default();
        let url = &self.site.url;
        let tried = revoke(url, &trust, Some(&self.observer), "c").await;
        assert!(
            matches!(&tried, Err(RemoteError::Refused(why)) if why.contains("role")),
            "{tried:?}"
        );
        revoke(url, &trust, Some(&self.operator), "c").await.unwrap();
    }

    /// The others report; nothing of c is in the model.
    async fn end(mut self) {
        for (number, value) in [(0, 1.0), (1, 3.0)] {
            let reply = self.crowd[number].0.report(0, 0, value).await.unwrap();
            assert_eq!(reply.outcome(), report_reply::Outcome::Accepted, "{reply:?}");
        }
        let committed = "SELECT COUNT(*) FROM rounds WHERE state = 'committed'";
        self.site.until(committed, 1).await;
        assert_eq!(self.site.value(1), 2.0, "something of the revoked client is in the model");
        self.site.until("SELECT COUNT(*) > 0 FROM refusals WHERE reason = 'revoked'", 1).await;
        drop(self.crowd);
        self.site.until_the_end().await;
    }

    /// Whatever it tries now is refused.
    async fn c_is_out(&mut self) {
        let url = self.site.url.clone();
        let c = &mut self.crowd[2].0;
        c.reconnect(&url).await;
        let refused = c.join(0, 0, &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        let request = c.fetch_request(0);
        let refused = c.calls.fetch_model(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        let refused = c.report(0, 0, 9.0).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        let again = RawClient::try_enrol(&url, "c", &identity("c"), None).await.err().unwrap();
        assert_eq!(again.code(), Code::PermissionDenied, "{again}");
        let again = RawClient::try_enrol(&url, "c", &identity("x"), None).await.err().unwrap();
        assert_eq!(again.code(), Code::PermissionDenied, "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_after_its_report() {
    let mut round = Round::begin("attackers-revoked-after").await;
    let reply = round.crowd[2].0.report(0, 0, 1_000.0).await.unwrap();
    assert_eq!(reply.outcome(), report_reply::Outcome::Accepted, "{reply:?}");
    round.revoke().await;
    // At once: also the stream on which it listens ends.
    let hearing = async { while let Some(Ok(_)) = round.crowd[2].1.next().await {} };
    soon("the end of its stream", hearing).await;
    round.c_is_out().await;
    round.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_in_the_middle_of_its_report() {
    let mut round = Round::begin("attackers-revoked-amid").await;
    let c = &mut round.crowd[2].0;
    let bytes = bytes_of(&vec![1_000.0; PARAMETERS]);
    let header = c.header(0, 0, &bytes);
    let header = c.sign(header);
    let (parts, stream) = mpsc::channel(10);
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let mut calls = c.calls.clone();
    let reporting = tokio::spawn(async move { calls.report(stream).await });
    parts.send(header_part(header)).await.unwrap();
    parts.send(data_part(&bytes[..2_000])).await.unwrap();
    // It has begun: its file is there.
    let updates = round.site.state.join("updates/0");
    let has_begun = || std::fs::read_dir(&updates).is_ok_and(|mut files| files.next().is_some());
    while !has_begun() {
        tokio::task::yield_now().await;
    }
    round.revoke().await;
    parts.send(data_part(&bytes[2_000..])).await.ok();
    drop(parts);
    let accepted = matches!(
        soon("its end", reporting).await.unwrap(),
        Ok(reply) if reply.get_ref().outcome() == report_reply::Outcome::Accepted
    );
    assert!(!accepted);
    round.c_is_out().await;
    assert!(!has_begun(), "what had come of it is still there");
    round.end().await;
}
