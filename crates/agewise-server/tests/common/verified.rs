//! Runs with proven draws and tokens.

use super::{Running, params, tasks};
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::coordinator::Admin;
use agewise_server::crypto::token::{Role, Token};
use agewise_server::{AccessParams, CoordinatorParams, DrawSource};
use std::path::Path;
use std::time::Duration;

/// Settings with proven draws and tokens, and a small model.
pub(crate) fn proven(state: &Path, policy: &str, clients: u64, cohort: u64) -> CoordinatorParams {
    let mut params = params(state, policy, clients, cohort);
    params.access = AccessParams { tokens: true };
    params.round.draws = DrawSource::Proven;
    params.model.name = "softmax".to_string();
    params
}

/// Tokens for so many clients.
pub(crate) fn tokens(state: &Path, count: u64) -> Vec<Token> {
    Admin::open(state).unwrap().invite(Role::Client, None, count).unwrap()
}

/// Plays a run to its end with honest clients.
pub(crate) async fn play(params: CoordinatorParams) {
    let (state, clients) = (params.state.clone(), params.round.clients);
    let mut swarm = SwarmParams::new("");
    swarm.tokens = tokens(&state, clients);
    swarm.longest_pause = Duration::from_millis(500);
    let coordinator = Running::start(params, false).await;
    swarm.coordinator.clone_from(&coordinator.url);
    let swarm = swarm::run(swarm, tasks(clients, 0), None, std::future::pending());
    let swarm = tokio::spawn(swarm);
    coordinator.until_the_end().await;
    swarm.await.unwrap().unwrap();
}
