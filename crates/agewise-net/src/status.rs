//! How a run goes, asked from outside.

use crate::participant::endpoint;
use crate::proto::coordinator_client::CoordinatorClient;
use crate::proto::{StatusReply, StatusRequest};
use crate::tls::Trust;
use agewise_core::Error;
use std::fmt;
use tonic::Request;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq)]
pub enum NoStatus {
    /// The address cannot be used.
    Input(Error),
    /// Nobody answers there.
    Unreachable(String),
}

impl fmt::Display for NoStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Unreachable(why) => write!(f, "no answer: {why}"),
        }
    }
}

impl std::error::Error for NoStatus {}

/// Asks a coordinator how its run goes.
pub async fn status(url: &str, trust: &Trust) -> Result<StatusReply, NoStatus> {
    let endpoint = endpoint(url, trust).map_err(NoStatus::Input)?;
    let channel = endpoint.connect().await;
    let channel =
        channel.map_err(|error| NoStatus::Unreachable(crate::participant::with_causes(&error)))?;
    let mut request = Request::new(StatusRequest {});
    request.set_timeout(std::time::Duration::from_secs(10));
    let reply = CoordinatorClient::new(channel).status(request).await;
    reply
        .map(tonic::Response::into_inner)
        .map_err(|status| NoStatus::Unreachable(status.message().to_string()))
}
