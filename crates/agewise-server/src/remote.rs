//! The status of a run and revocation, over the network.

use crate::client::{endpoint, with_causes};
use crate::crypto::token::Token;
use crate::protocol::coordinator_client::CoordinatorClient;
use crate::protocol::{RevokeRequest, StatusReply, StatusRequest};
use crate::tls::Trust;
use agewise_core::Error;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address cannot be used.
    #[error(transparent)]
    Input(#[from] Error),
    /// The coordinator refuses the request.
    #[error("refused: {0}")]
    Refused(String),
    /// There is no connection.
    #[error("no answer: {}", with_causes(.0))]
    Unreachable(#[from] tonic::transport::Error),
    /// The call failed on its way, or the coordinator cannot answer it now.
    #[error("no answer: {}", .0.message())]
    Failed(#[source] Status),
}

/// Asks a coordinator how its run goes, with the token of an observer where that is needed.
pub async fn status(
    url: &str,
    trust: &Trust,
    token: Option<&Token>,
) -> Result<StatusReply, RemoteError> {
    let mut coordinator = connect(url, trust).await?;
    let reply = coordinator.status(bearing(StatusRequest {}, token)).await;
    reply.map(tonic::Response::into_inner).map_err(no_answer)
}

/// Revokes a client by its name, or a token by its public part. Says what was revoked.
pub async fn revoke(
    url: &str,
    trust: &Trust,
    token: Option<&Token>,
    who: &str,
) -> Result<String, RemoteError> {
    let mut coordinator = connect(url, trust).await?;
    let request = RevokeRequest { who: who.to_string() };
    let reply = coordinator.revoke(bearing(request, token)).await;
    reply.map(|reply| reply.into_inner().revoked).map_err(no_answer)
}

async fn connect(url: &str, trust: &Trust) -> Result<CoordinatorClient<Channel>, RemoteError> {
    Ok(CoordinatorClient::new(endpoint(url, trust)?.connect().await?))
}

/// A request that has to be answered soon, with a token.
fn bearing<T>(message: T, token: Option<&Token>) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(10));
    // A token is made of letters, digits and underscores, which every header may have.
    if let Some(value) = token.and_then(|token| format!("Bearer {}", token.reveal()).parse().ok()) {
        request.metadata_mut().insert("authorization", value);
    }
    request
}

fn no_answer(status: Status) -> RemoteError {
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument => {
            RemoteError::Refused(status.message().to_string())
        }
        _ => RemoteError::Failed(status),
    }
}
