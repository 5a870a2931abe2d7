//! A client of the cohort that sends wrong updates: endless, in a million pieces, of an impossible size, or malformed.

use crate::common::folder;
use crate::common::raw_client::{RawClient, data_part, header_part, parts_of};
use crate::common::site::{Site, bytes_of, settings, soon};
use agewise_server::MaxNorm;
use agewise_server::protocol::{ReportHeader, ReportPart, report_reply};

const PARAMETERS: usize = 10_000;

type Parts = Box<dyn Iterator<Item = ReportPart> + Send>;

fn repeated(header: ReportHeader, part: ReportPart) -> Parts {
    Box::new(std::iter::once(header_part(header)).chain(std::iter::repeat(part)))
}

/// What it tries, and for which reason it is refused.
fn bombs(attacker: &mut RawClient) -> Vec<(&'static str, Parts)> {
    let good = bytes_of(&vec![1.0; PARAMETERS]);
    let header = attacker.header(0, 0, &good);
    let signed = |change: fn(&mut ReportHeader)| {
        let mut header = header.clone();
        change(&mut header);
        attacker.sign(header)
    };
    let iter = |parts: Vec<ReportPart>| Box::new(parts.into_iter()) as Parts;
    let mut nan = vec![1.0; PARAMETERS];
    nan[7] = f32::NAN;
    let huge = bytes_of(&vec![f32::MAX; PARAMETERS]);
    let mut all = vec![
        ("shape", repeated(signed(|header| header.parameters = 1 << 62), data_part(&[0; 1024]))),
        ("shape", repeated(signed(|header| header.parameters = u64::MAX), data_part(&[]))),
        ("size", repeated(signed(|_| {}), data_part(&[0; 60_000]))),
        ("size", repeated(signed(|_| {}), data_part(&[0; 256 << 10]))),
        ("size", Box::new(repeated(signed(|_| {}), data_part(&[0])).take(1_000_000)) as Parts),
        ("size", Box::new(repeated(signed(|_| {}), data_part(&[])).take(1_000_000)) as Parts),
        ("size", repeated(signed(|_| {}), header_part(ReportHeader::default()))),
        ("size", repeated(signed(|_| {}), ReportPart { part: None })),
        ("not-finite", iter(parts_of(signed(|_| {}), &bytes_of(&nan)))),
        ("version", iter(parts_of(signed(|header| header.model_version = 7), &good))),
        ("round", iter(parts_of(signed(|header| header.round = 7), &good))),
        ("not-finite", iter(parts_of(signed(|header| header.samples = u64::MAX), &good))),
    ];
    let mut header = attacker.header(0, 0, &huge);
    header.parameters = PARAMETERS as u64;
    all.push(("norm", iter(parts_of(attacker.sign(header), &huge))));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_update_costs_little_and_does_nothing() {
    let state = folder("attackers-updates");
    let mut params = settings(&state, 2, 2);
    params.round.rounds = 1;
    params.updates.max_norm = MaxNorm::Fixed(1e6);
    let site = Site::open(params, PARAMETERS).await;
    let mut crowd = Vec::new();
    for name in ["honest", "hostile"] {
        let mut client = RawClient::enrol(&site.url, name, None).await;
        let stream = client.listen().await;
        crowd.push((client, stream));
    }
    site.until("SELECT COUNT(*) FROM rounds", 1).await;
    for (client, _) in &mut crowd {
        assert_eq!(client.join(0, client.age(0), &[]).await.unwrap().why, "");
    }
    let hostile = &mut crowd[1].0;
    let (mut tried, mut answered) = (0, 0);
    for (at, (reason, parts)) in bombs(hostile).into_iter().enumerate() {
        let answer = soon("an answer", hostile.calls.report(tokio_stream::iter(parts))).await;
        // Who goes on sending may be cut off before it hears why.
        if let Ok(reply) = answer {
            let reply = reply.into_inner();
            assert_eq!(reply.outcome(), report_reply::Outcome::Refused, "{at}: {reply:?}");
            assert!(reply.why.starts_with(reason), "{at}: {reply:?}, expected {reason}");
            answered += 1;
        }
        tried += 1;
        site.until("SELECT SUM(count) FROM refusals WHERE client = 1", tried).await;
    }
    assert!(answered >= 5, "{answered} of {tried}");
    let files = std::fs::read_dir(state.join("updates/0")).unwrap().count();
    assert_eq!(files, 0, "something of it is still there");
    assert_eq!(site.count("SELECT COUNT(*) FROM refusals WHERE client <> 1"), 0);
    let reply = crowd[1].0.report(0, 0, 1.0).await.unwrap();
    assert_eq!(reply.outcome(), report_reply::Outcome::Accepted, "{reply:?}");
    let reply = crowd[1].0.report(0, 0, 2.0).await.unwrap();
    assert!(reply.why.starts_with("twice"), "{reply:?}");
    crowd[0].0.report(0, 0, 3.0).await.unwrap();
    site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed'", 1).await;
    assert_eq!(site.value(1), 2.0);
    drop(crowd);
    site.until_the_end().await;
}
