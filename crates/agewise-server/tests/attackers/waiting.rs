//! Clients that agree on when to stay away and come back together, against a real coordinator with its defaults.
//!
//! Under the default law a client takes part with probability h = F m/n at most (F = 2; n/m as published), whatever it did before. So of k
//! colluders at most Binomial(k, h) are in a round, given everything before it (docs/theory.md). Keys, seeds and the run are fixed.

use crate::common::raw_client::RawClient;
use crate::common::site::{Site, settings, soon};
use crate::common::{cohorts, folder, ledger};
use agewise_core::theory::Binomial;
use agewise_core::{MaxAge, PolicySpec};
use agewise_server::RoundParams;
use agewise_server::crypto::vrf::DrawContext;
use agewise_server::protocol::{
    Announcement, ParticipationParams, ParticipationRule, State, join_reply, report_reply,
};
use std::fs;
use std::ops::Range;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::Streaming;

const CLIENTS: usize = 50;
const COHORT: u64 = 10;
/// The multiple of m/n of the default law.
const FACTOR: f64 = 2.0;
/// Honest clients that are offline for four intervals, with the last numbers but one.
const OFFLINE: usize = 5;
const AWAY: Range<u64> = 6..26;

/// When the colluders, who are the first clients and know their draws of the round, are ready to come.
#[derive(Debug, Clone, Copy)]
enum Strategy {
    /// In every so many rounds only, so that all of them are overdue then.
    Every(u64),
    /// In rounds in which at least so many of them would come.
    Lucky(usize),
}

/// A client that listens unless it is offline.
struct Listener {
    raw: RawClient,
    listening: JoinHandle<()>,
}

impl Listener {
    /// Listens again after it was offline.
    async fn come_back(&mut self) {
        self.listening = tokio::spawn(drain(self.raw.listen().await));
    }

    /// The proof of its draw, if that wins.
    fn wants_to_join(&self, heard: &Announcement, rule: &ParticipationRule) -> Option<Vec<u8>> {
        let (run, client) = (self.raw.run(), self.raw.client());
        let seed = &heard.round_seed;
        let context = DrawContext { run: &run, round: heard.round, seed, client };
        let (drawn, proof) = context.draw(&self.raw.identity);
        let age = self.raw.age(heard.round);
        rule.takes_part(heard.round, client, age, drawn).then_some(proof)
    }

    /// Joins; whether it is in the round then.
    async fn join(&mut self, round: u64, proof: &[u8]) -> bool {
        let reply = self.raw.join(round, self.raw.age(round), proof).await.unwrap();
        // On a machine that is busy it may be too late.
        let outcome = reply.outcome();
        assert_ne!(outcome, join_reply::Outcome::Refused, "{}", reply.why);
        outcome == join_reply::Outcome::Selected
    }

    async fn report(&mut self, heard: &Announcement) {
        let reply = self.raw.report(heard.round, heard.model_version, 1.0).await.unwrap();
        if reply.outcome() == report_reply::Outcome::Accepted {
            self.raw.reply.waiting_since = reply.waiting_since;
        }
    }
}

async fn drain(mut stream: Streaming<Announcement>) {
    while let Some(Ok(_)) = stream.next().await {}
}

/// What came of a run.
struct Played {
    /// Who was credited, by round.
    cohorts: Vec<Vec<u32>>,
    /// The interval that was published for each round.
    intervals: Vec<f64>,
}

impl Played {
    /// How many of the clients with these numbers were in a round.
    fn count(&self, round: usize, clients: &Range<u32>) -> usize {
        self.cohorts[round].iter().filter(|client| clients.contains(client)).count()
    }

    /// The greatest probability of the law of a round.
    fn cap(&self, round: usize) -> f64 {
        (FACTOR / self.intervals[round]).min(1.0)
    }

    /// The first round from this one on in which a client was credited.
    fn next_credit(&self, client: u32, from: u64) -> Option<u64> {
        (from..self.cohorts.len() as u64)
            .find(|&round| self.cohorts[round as usize].contains(&client))
    }
}

async fn play(
    name: &str,
    colluders: usize,
    strategy: Strategy,
    rounds: u64,
    change: impl FnOnce(&mut RoundParams),
) -> Played {
    let state = folder(name);
    fs::write(state.join("seeds.key"), "5e".repeat(32)).unwrap();
    let mut params = settings(&state, CLIENTS as u64, COHORT);
    // The defaults of a deployment, but for the time that joining takes.
    params.round = RoundParams {
        clients: CLIENTS as u64,
        cohort: COHORT,
        rounds: 0,
        join_seconds: 0.6,
        drain_seconds: 0.0,
        ..RoundParams::default()
    };
    change(&mut params.round);
    let policy: PolicySpec = params.round.policy.parse().unwrap();
    let site = Site::open_with(params, 4, |made| made.with_run(*b"those who waited")).await;
    let (mut clients, mut streams) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let mut raw = RawClient::enrol(&site.url, &format!("client-{number:02}"), None).await;
        streams.push(raw.listen().await);
        clients.push(raw);
    }
    // The last client is always there and hears for all.
    let mut ear = streams.pop().unwrap();
    let listening = streams.into_iter().map(|stream| tokio::spawn(drain(stream)));
    let listening = listening.chain([tokio::spawn(async {})]);
    let mut clients: Vec<Listener> = clients
        .into_iter()
        .zip(listening)
        .map(|(raw, listening)| Listener { raw, listening })
        .collect();
    let offline = CLIENTS - 1 - OFFLINE..CLIENTS - 1;
    let mut next = 0;
    while next < rounds {
        let hearing = async {
            loop {
                let heard = ear.next().await.unwrap().unwrap();
                if heard.round >= next && heard.state() == State::Joining {
                    return heard;
                }
            }
        };
        let heard = soon("a round", hearing).await;
        let params = ParticipationParams {
            policy: policy.clone(),
            max_age: MaxAge::Auto,
            clients: heard.clients,
            cohort: heard.cohort,
            interval: heard.interval,
        };
        let rule = params.build().unwrap();
        for client in &mut clients[offline.clone()] {
            if heard.round == AWAY.start {
                client.listening.abort();
            } else if heard.round == AWAY.end {
                client.come_back().await;
            }
        }
        let mut winners: Vec<_> =
            clients.iter().map(|client| client.wants_to_join(&heard, &rule)).collect();
        let lucky = winners[..colluders].iter().flatten().count();
        let are_ready = match strategy {
            Strategy::Every(period) => heard.round % period == period - 1,
            Strategy::Lucky(least) => lucky >= least,
        };
        if !are_ready {
            winners[..colluders].fill(None);
        }
        if AWAY.contains(&heard.round) {
            winners[offline.clone()].fill(None);
        }
        let mut members = Vec::new();
        for (client, proof) in clients.iter_mut().zip(&winners) {
            if let Some(proof) = proof
                && client.join(heard.round, proof).await
            {
                members.push(client);
            }
        }
        for member in members {
            member.report(&heard).await;
        }
        next = heard.round + 1;
    }
    drop(clients);
    site.close().await;
    let ledger = ledger(&state);
    let mut query = ledger.prepare("SELECT interval FROM rounds ORDER BY round").unwrap();
    let intervals = query.query_map([], |row| row.get(0)).unwrap();
    let intervals = intervals.collect::<Result<_, _>>().unwrap();
    Played { cohorts: cohorts(&ledger)[..rounds as usize].to_vec(), intervals }
}

/// In how many rounds at least so many colluders came must not exceed what the binomial says by more than five standard errors and a round:
/// in each round the chance is bounded whatever came before, so the excess is a supermartingale with at most this variance. Other honest
/// clients are beside them for comparison, as many as there are colluders.
async fn does_not_beat_the_binomial(name: &str, colluders: usize, strategy: Strategy) {
    let rounds = 50;
    let played = play(name, colluders, strategy, rounds, |_| {}).await;
    let theirs = 0..colluders as u32;
    let honest = theirs.end..2 * theirs.end;
    let sum = |clients: &Range<u32>| -> usize {
        (0..rounds as usize).map(|round| played.count(round, clients)).sum()
    };
    let most = (0..rounds as usize).map(|round| played.count(round, &theirs)).max().unwrap();
    println!(
        "{colluders} of {CLIENTS}, {strategy:?}: {most} in a round at most, {:.2} in the mean; as many honest clients {:.2}",
        sum(&theirs) as f64 / rounds as f64,
        sum(&honest) as f64 / rounds as f64,
    );
    for least in 1..=colluders {
        let (mut expected, mut variance, mut seen) = (0.0, 0.0, 0);
        for round in 0..rounds as usize {
            let bound = Binomial::new(colluders as u32, played.cap(round));
            let at_least = bound.iter().filter(|&(count, _)| count as usize >= least);
            let chance: f64 = at_least.map(|(_, p)| p).sum();
            expected += chance;
            variance += if chance < 0.5 { chance * (1.0 - chance) } else { 0.25 };
            seen += usize::from(played.count(round, &theirs) >= least);
        }
        let most = expected + 5.0 * variance.sqrt() + 1.0;
        let context = format!("{strategy:?}, {least} or more of {colluders}");
        assert!(seen as f64 <= most, "{context}: {seen} rounds, at most {most}");
    }
    // Waiting brings no places either: a client that waits is credited less often than one that does not.
    let margin = 5.0 * (sum(&honest) as f64).sqrt();
    assert!(sum(&theirs) as f64 <= sum(&honest) as f64 + margin, "{strategy:?}");

    // Clients that were offline for real have the greatest chance of the law in each round from then on. The chance that one of them still
    // waits after 24 rounds is 5 (1 - h)^24, below 1e-3 for h of 0.3 and more; here, with these seeds, none does.
    let caps: Vec<f64> =
        (AWAY.end as usize..rounds as usize).map(|round| played.cap(round)).collect();
    let least = caps.iter().copied().fold(1.0, f64::min);
    assert!(least > 0.3, "{least}");
    let mut waits = 0;
    for client in CLIENTS as u32 - 1 - OFFLINE as u32..CLIENTS as u32 - 1 {
        let back = played.next_credit(client, AWAY.end);
        let back = back.unwrap_or_else(|| panic!("client {client} is not back"));
        waits += back - AWAY.end + 1;
    }
    let mean = waits as f64 / OFFLINE as f64;
    println!("back after {mean:.1} rounds in the mean, 1/h is {:.1} at most", 1.0 / least);
    // Geometric waits with a mean of at most 1/h and a variance of at most (1 - h)/h^2; five standard errors.
    let error = ((1.0 - least) / (least * least) / OFFLINE as f64).sqrt();
    assert!(mean < 1.0 / least + 5.0 * error, "{mean} rounds in the mean");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_of_fifty_that_wait_are_no_more_than_the_binomial() {
    does_not_beat_the_binomial("attackers-waiting-5", 5, Strategy::Every(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_of_fifty_that_wait_are_no_more_than_the_binomial() {
    does_not_beat_the_binomial("attackers-waiting-10", 10, Strategy::Every(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_of_fifty_that_come_when_they_are_lucky_are_no_more_than_the_binomial() {
    does_not_beat_the_binomial("attackers-lucky-10", 10, Strategy::Lucky(5)).await;
}

/// The cap is needed: under a law with a certain age all of them are in the round that they agreed on.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_law_with_a_certain_age_those_who_wait_come_together() {
    let change = |round: &mut RoundParams| {
        round.policy = "markov-optimal".to_string();
        // Ten and about as many honest ones are more than two cohorts.
        round.max_cohort = CLIENTS as u64;
    };
    let played = play("attackers-waiting-optimal", 10, Strategy::Every(10), 10, change).await;
    assert_eq!(played.count(9, &(0..10)), 10);
}
