//! How long a call may take to be answered.

use super::request_limits::REPORT;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tower_layer::Layer;

/// Within which time the head of an answer has to be there: a layer for the server. Without it, an authenticated client could hold a
/// call open for good by sending its request byte by byte. The body of an answer may take its time: announcements go on for hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallDeadlines {
    /// For every call but reports.
    pub(crate) short: Duration,
    /// For reports.
    pub(crate) report: Duration,
}

impl<S> Layer<S> for CallDeadlines {
    type Service = WithDeadlines<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithDeadlines { inner, deadlines: *self }
    }
}

/// A service whose calls are answered in time, if only by saying that they were not.
#[derive(Debug, Clone)]
pub(crate) struct WithDeadlines<S> {
    inner: S,
    deadlines: CallDeadlines,
}

impl<S, In, Out> Service<Request<In>> for WithDeadlines<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
    Out: Default + 'static,
    S::Error: 'static,
{
    type Response = Response<Out>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let CallDeadlines { short, report } = self.deadlines;
        let limit = if request.uri().path() == REPORT { report } else { short };
        let call = timeout(limit, self.inner.call(request));
        Box::pin(async move {
            // The call is dropped when its time is over, and what it had read of its request with it.
            call.await.unwrap_or_else(|_| {
                Ok(Status::deadline_exceeded("the request took too long to come in").into_http())
            })
        })
    }
}
