//! A run of twelve honest clients, in which everything that is random is fixed: it ends with the same bytes, whatever attacks it.
//!
//! Three attackers enrol before them, and are clients 0, 1 and 2: their ages grow, and they are never in a cohort. Attackers read the ledger
//! to see which round it is and what its seed is, so that they do not count among the clients that listen.
//!
//! A round stays open for joining until every honest client has joined whose draw wins, and no attacker holds it any more. So nothing
//! depends on how fast the machine is.

use crate::common::raw_client::{RawClient, SAMPLES, identity};
use crate::common::site::{Site, eventually, soon};
use crate::common::{cohorts, folder, ledger, params};
use agewise_core::MaxAge;
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::client::{Event, OwnTask, TaskProvider};
use agewise_server::coordinator::audit::audit;
use agewise_server::coordinator::{Admin, Coordinator};
use agewise_server::crypto::Identity;
use agewise_server::crypto::token::{Role, Token};
use agewise_server::crypto::vrf::DrawContext;
use agewise_server::protocol::{ParticipationParams, ParticipationRule};
use agewise_server::remote::revoke;
use agewise_server::test_support::Numbers;
use agewise_server::tls::Trust;
use agewise_server::{CoordinatorParams, DrawSource};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, mpsc};

pub(crate) const ATTACKERS: [&str; 3] = ["attacker-0", "attacker-1", "attacker-2"];
const HONEST: usize = 12;
pub(crate) const COHORT: u64 = 3;
pub(crate) const ROUNDS: u64 = 6;
const PARAMETERS: usize = 5_000;
/// The name of the figures about refusals, up to the reason.
const REFUSALS: &str = "agewise_refusals_total{reason=\"";
const RUN: [u8; 16] = *b"the attacked run";

/// Moves every number by something that follows from client, round and seed.
fn wanderer() -> Box<dyn TaskProvider> {
    let task = Numbers::new(PARAMETERS).with_report(SAMPLES, 0.5);
    Box::new(OwnTask(Arc::new(task.with_training(|job, parameters| {
        let mut state = job.key.seed.0 ^ (job.round << 32) ^ u64::from(job.client);
        for value in parameters {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *value = 0.9 * *value + (state >> 40) as f32 / 16_777_216.0;
        }
        Ok(())
    }))))
}

/// Tokens that were handed out before the run.
pub(crate) struct Tokens {
    /// Of the attackers, used when the attack begins.
    pub(crate) used: Vec<Token>,
    /// For a client, and not used yet.
    pub(crate) spare: Token,
    /// For a client of the name `attacker-2`.
    pub(crate) for_attacker_2: Token,
    pub(crate) for_another: Token,
    pub(crate) revoked: Token,
    pub(crate) observer: Token,
}

/// What an attacker sees.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) state: PathBuf,
    pub(crate) tokens: Arc<Tokens>,
    holds: Holds,
}

/// For each attacker that needs it: the first round that has to stay open for joining.
type Holds = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// A round, as the ledger has it.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) round: u64,
    pub(crate) is_joining: bool,
    pub(crate) clients: u32,
    pub(crate) interval: f64,
    pub(crate) seed: Vec<u8>,
    pub(crate) model: u64,
}

impl Snapshot {
    /// How clients decide in this round.
    pub(crate) fn rule(&self) -> ParticipationRule {
        let params = ParticipationParams {
            policy: "markov-optimal".parse().unwrap(),
            max_age: MaxAge::Fixed(10),
            clients: self.clients,
            cohort: COHORT as u32,
            interval: self.interval,
        };
        params.build().unwrap()
    }
}

impl Target {
    pub(crate) async fn attacker(&self, number: usize) -> RawClient {
        RawClient::enrol(&self.url, ATTACKERS[number], None).await
    }

    /// The round under way, if there is one.
    pub(crate) fn now(&self) -> Option<Snapshot> {
        let query = "SELECT round, state = 'joining', clients, interval, seed, model FROM rounds
                     WHERE state IN ('joining', 'training')";
        let row = |row: &rusqlite::Row<'_>| {
            Ok(Snapshot {
                round: row.get::<_, i64>(0)? as u64,
                is_joining: row.get(1)?,
                clients: row.get(2)?,
                interval: row.get(3)?,
                seed: row.get(4)?,
                model: row.get::<_, i64>(5)? as u64,
            })
        };
        ledger(&self.state).query_row(query, [], row).ok()
    }

    /// Keeps this round and all later ones open for joining, as soon as they are; earlier ones are released.
    pub(crate) fn hold(&self, attacker: &'static str, round: u64) {
        self.holds.lock().insert(attacker, round);
    }

    /// Whether every honest client has joined a round whose draw wins.
    fn honest_clients_have_joined(&self, round: u64) -> bool {
        let Some(seen) = self.now().filter(|seen| seen.round == round) else {
            return false;
        };
        let ledger = ledger(&self.state);
        let known = "SELECT client, waiting_since FROM clients WHERE key = ?1 AND client < ?2";
        let joined = "SELECT COUNT(*) FROM joins WHERE round = ?1 AND client = ?2
                      AND outcome IN ('selected', 'reported')";
        (0..HONEST).map(honest_identity).all(|identity| {
            let key = identity.public().to_bytes();
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let found: rusqlite::Result<(u32, i64)> =
                ledger.query_row(known, (key, seen.clients), row);
            // A client that is not in the round is not waited for.
            let Ok((client, since)) = found else { return true };
            let has_joined = ledger.query_row(joined, (round as i64, client), |row| row.get(0));
            let wins = || {
                let context = DrawContext { run: &RUN, round, seed: &seen.seed, client };
                let (drawn, _) = context.draw(&identity);
                seen.rule().takes_part(round, client, (round as i64 - since) as u64, drawn)
            };
            has_joined == Ok(1) || !wins()
        })
    }

    /// Waits for a round that is open for joining, this one or a later one.
    pub(crate) async fn joining(&self, least: u64) -> Snapshot {
        loop {
            if let Some(seen) = self.now()
                && seen.is_joining
                && seen.round >= least
            {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The proofs of others in a round.
    pub(crate) fn proofs(&self, round: u64) -> Vec<Vec<u8>> {
        let ledger = ledger(&self.state);
        let query = "SELECT proof FROM joins WHERE round = ?1 AND proof IS NOT NULL";
        let mut query = ledger.prepare(query).unwrap();
        let rows = query.query_map([round as i64], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

/// The key of an honest client.
fn honest_identity(number: usize) -> Identity {
    identity(&format!("honest {number}"))
}

/// When joining is over: not before attackers have had a moment, either.
fn joining_is_over(target: Target) -> impl Fn(u64) -> bool + Send + Sync {
    const MOMENT: Duration = Duration::from_millis(1_500);
    let begun = Mutex::new((u64::MAX, Instant::now()));
    move |round| {
        let mut begun = begun.lock();
        if begun.0 != round {
            *begun = (round, Instant::now());
        }
        begun.1.elapsed() >= MOMENT
            && target.holds.lock().values().all(|held| round < *held)
            && target.honest_clients_have_joined(round)
    }
}

/// Lets all rounds go on when an attack has ended, or has failed.
struct ReleaseAll(Holds);

impl Drop for ReleaseAll {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}

/// What is left of a run.
pub(crate) struct AttackedRun {
    pub(crate) state: PathBuf,
    pub(crate) model: Vec<u8>,
    pub(crate) cohorts: Vec<Vec<u32>>,
    /// Figures of the metrics shortly before the end, by name.
    metrics: BTreeMap<String, f64>,
    /// What the ledger says at the same moment: client, reason and count.
    refusals: Vec<Refused>,
}

/// A client (-1 is a peer that is not a client), a reason, and how often.
type Refused = (i64, String, i64);

impl AttackedRun {
    /// How often a client was refused for a reason; -1 is a peer that is not a client.
    pub(crate) fn refused(&self, client: i64, reason: &str) -> i64 {
        let is_it = |(who, why, _): &&Refused| *who == client && why == reason;
        self.refusals.iter().filter(is_it).map(|(_, _, count)| count).sum()
    }

    /// Every refusal.
    pub(crate) fn refusals(&self) -> &[Refused] {
        &self.refusals
    }

    /// A figure about connections.
    pub(crate) fn connections(&self, name: &str) -> f64 {
        let closed = ["rejected", "evicted", "timed-out"].contains(&name);
        let series = if closed { "connections_closed_total{why" } else { "connections{state" };
        self.metrics[&format!("agewise_{series}=\"{name}\"}}")]
    }

    /// The attack changed nothing for the honest clients, and no refusal is attributed to one of them.
    pub(crate) async fn is_as_without(&self) {
        self.has_the_same_model().await;
        self.blames_no_honest_client();
    }

    /// No honest client has a refusal in the ledger.
    pub(crate) fn blames_no_honest_client(&self) {
        let honest = |(client, _, _): &&Refused| *client >= ATTACKERS.len() as i64;
        let blamed: Vec<_> = self.refusals.iter().filter(honest).collect();
        assert!(blamed.is_empty(), "honest clients are blamed: {blamed:?}");
    }

    /// Cohorts and the last model are those of the run without attackers, the audit finds nothing, and every refusal is in both counts.
    pub(crate) async fn has_the_same_model(&self) {
        let reference = reference().await;
        assert_eq!(self.cohorts, reference.cohorts, "{:?}", self.refusals());
        assert!(self.model == reference.model, "another model: {:?}", self.refusals());
        let findings = audit(&self.state, |_, _| {}).unwrap().findings;
        assert_eq!(findings, []);
        let mut counted: BTreeMap<&str, i64> = BTreeMap::new();
        for (_, reason, count) in &self.refusals {
            *counted.entry(reason).or_default() += count;
        }
        let reason =
            |name: &str| Some(name.strip_prefix(REFUSALS)?.strip_suffix("\"}")?.to_string());
        for (reason, figure) in self.metrics.iter().filter_map(|(n, f)| Some((reason(n)?, f))) {
            let stored = counted.remove(reason.as_str()).unwrap_or(0);
            assert_eq!(*figure, stored as f64, "metrics and ledger: {reason}");
        }
        assert!(counted.is_empty(), "not in the metrics: {counted:?}");
    }
}

/// The run in which the attackers are silent.
pub(crate) async fn reference() -> &'static AttackedRun {
    static REFERENCE: OnceCell<AttackedRun> = OnceCell::const_new();
    let play = || play("attackers-reference", |_| {}, |_| async {});
    REFERENCE.get_or_init(play).await
}

pub(crate) fn settings(state: &Path) -> CoordinatorParams {
    let mut params = params(state, "markov-optimal", HONEST as u64, COHORT);
    params.access.tokens = true;
    params.round.draws = DrawSource::Proven;
    params.round.rounds = ROUNDS;
    // Joining ends before (`joining_is_over`), and reports are awaited until all have come.
    params.round.join_seconds = 300.0;
    params.round.report_seconds = 300.0;
    params.round.drain_seconds = 0.0;
    // Never full, so that it does not matter who comes first.
    params.round.max_cohort = HONEST as u64 + 3;
    params.model.keep = 100;
    params
}

/// Plays a run to its end while this attack goes on.
pub(crate) async fn play<F>(
    name: &str,
    change: impl FnOnce(&mut CoordinatorParams),
    attack: impl FnOnce(Target) -> F,
) -> AttackedRun
where
    F: Future<Output = ()> + Send + 'static,
{
    let state = folder(name);
    fs::write(state.join("seeds.key"), "5e".repeat(32)).unwrap();
    let mut params = settings(&state);
    change(&mut params);
    let mut admin = Admin::open(&state).unwrap();
    let mut invite = |role, name, count| admin.invite(role, name, count).unwrap();
    let honest = invite(Role::Client, None, HONEST as u64);
    let tokens = Tokens {
        used: invite(Role::Client, None, 3),
        spare: invite(Role::Client, None, 1).remove(0),
        for_attacker_2: invite(Role::Client, Some(ATTACKERS[2]), 1).remove(0),
        for_another: invite(Role::Client, Some("another"), 1).remove(0),
        revoked: invite(Role::Client, None, 1).remove(0),
        observer: invite(Role::Observer, None, 1).remove(0),
    };
    admin.revoke(&tokens.revoked.id()).unwrap();
    drop(admin);
    let holds = Holds::default();
    let mut target =
        Target { url: String::new(), state, tokens: Arc::new(tokens), holds: holds.clone() };
    let is_over = joining_is_over(target.clone());
    let change = |made: Coordinator| made.with_run(RUN).end_joining_when(is_over);
    let site = Site::open_with(params, PARAMETERS, change).await;
    target.url.clone_from(&site.url);
    for (name, token) in ATTACKERS.iter().zip(&target.tokens.used) {
        RawClient::enrol(&site.url, name, Some(token)).await;
    }
    let attack = attack(target.clone());
    let attack = tokio::spawn(async move {
        let _released = ReleaseAll(holds);
        attack.await;
    });

    let mut swarm = SwarmParams::new(site.url.clone());
    swarm.identities = (0..HONEST).map(honest_identity).collect();
    swarm.tokens = honest;
    let (events, mut heard) = mpsc::unbounded_channel();
    let tasks = (0..HONEST).map(|_| wanderer()).collect();
    let swarm = swarm::run(swarm, tasks, Some(events), std::future::pending());
    soon("the end of the run", swarm).await.unwrap();
    // An attack that has ended by itself may have failed; the others go on for ever.
    if attack.is_finished() {
        attack.await.unwrap();
    } else {
        attack.abort();
        attack.await.ok();
    }
    let state = site.state.clone();
    all_refusals_are_stored(&site, &target.tokens.observer).await;
    let mut metrics = site.metrics().await;
    let mut refusals = refusals(&state);
    // Without the refusal that was caused here.
    *metrics.get_mut(&format!("{REFUSALS}role\"}}")).unwrap() -= 1.0;
    refusals.iter_mut().find(|(_, reason, _)| reason == "role").unwrap().2 -= 1;
    refusals.retain(|(_, _, count)| *count > 0);
    farewell(&site).await;
    site.until_the_end().await;
    while let Ok((client, event)) = heard.try_recv() {
        let is_good = !matches!(
            event,
            Event::NotJoined { .. } | Event::NotAccepted { .. } | Event::Disconnected { .. }
        );
        assert!(is_good, "honest client {client}: {event:?}");
    }
    let path = state.join(format!("models/{ROUNDS:08}.safetensors"));
    let model = fs::read(path).unwrap();
    let cohorts = cohorts(&ledger(&state));
    assert_eq!(cohorts.len() as u64, ROUNDS);
    AttackedRun { state, model, cohorts, metrics, refusals }
}

/// The authenticator tells the driver a few times a second what it has refused. So one request more is refused here, for its
/// role: when it is in the ledger, everything before it is, too.
async fn all_refusals_are_stored(site: &Site, observer: &Token) {
    let query = "SELECT COALESCE(SUM(count), 0) FROM refusals WHERE reason = 'role'";
    let before = site.count(query);
    revoke(&site.url, &Trust::default(), Some(observer), ATTACKERS[0]).await.unwrap_err();
    eventually("the refusal is stored", async || site.count(query) > before).await;
}

fn refusals(state: &Path) -> Vec<Refused> {
    let ledger = ledger(state);
    let query = "SELECT client, reason, SUM(count) FROM refusals GROUP BY client, reason";
    let mut query = ledger.prepare(query).unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

/// The coordinator waits until everyone has heard the end, so the attackers listen now. Who cannot makes it wait for some seconds.
async fn farewell(site: &Site) {
    for name in ATTACKERS {
        let enrolled = RawClient::try_enrol(&site.url, name, &identity(name), None).await;
        if let Ok(mut attacker) = enrolled {
            let request = attacker.watch_request();
            let heard = attacker.calls.watch(request).await.map(tonic::Response::into_inner);
            if let Ok(mut stream) = heard {
                stream.message().await.ok();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_attackers_two_runs_are_the_same() {
    let again = play("attackers-again", |_| {}, |_| async {}).await;
    again.is_as_without().await;
    assert!(again.refusals().is_empty(), "{:?}", again.refusals());
    let attackers: Vec<u32> = again.cohorts.iter().flatten().copied().filter(|c| *c < 3).collect();
    assert_eq!(attackers, [0; 0]);
    assert!(again.cohorts.iter().all(|cohort| !cohort.is_empty()), "{:?}", again.cohorts);
}
