//! Runs with proven lots and tokens.

use super::{Running, learners, params};
use agewise_net::coordinator::Roster;
use agewise_net::honesty::token::{Role, Token};
use agewise_net::swarm::{self, SwarmParams};
use agewise_net::{AccessParams, CoordinatorParams, LotSource};
use std::path::Path;
use std::time::Duration;

/// Settings with proven lots and tokens, and a small model.
pub(crate) fn proven(state: &Path, policy: &str, clients: u64, cohort: u64) -> CoordinatorParams {
    let mut params = params(state, policy, clients, cohort);
    params.access = AccessParams { tokens: true };
    params.round.lots = LotSource::Proven;
    params.model.name = "softmax".to_string();
    params
}

/// Tokens for so many clients.
pub(crate) fn tokens(state: &Path, count: u64) -> Vec<Token> {
    Roster::open(state).unwrap().invite(Role::Client, None, count).unwrap()
}

/// Plays a run to its end with honest clients.
pub(crate) async fn play(params: CoordinatorParams) {
    let (state, clients) = (params.state.clone(), params.round.clients);
    let mut swarm = SwarmParams::new("");
    swarm.tokens = tokens(&state, clients);
    swarm.longest_pause = Duration::from_millis(500);
    let coordinator = Running::start(params, false).await;
    swarm.coordinator.clone_from(&coordinator.url);
    let swarm = swarm::run(swarm, learners(clients, 0), None, std::future::pending());
    let swarm = tokio::spawn(swarm);
    coordinator.until_the_end().await;
    swarm.await.unwrap().unwrap();
}
