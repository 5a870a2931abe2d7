//! What the request of a call may bring, which HTTP/2 does not limit: a message is put together outside the windows, before the service sees it.

use super::connection::connection_in;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service, StdError};
use tower_layer::Layer;

/// The call that brings megabytes.
pub(super) const REPORT: &str = "/agewise.v1.Coordinator/Report";
/// The largest request of every other call, which brings a few names and numbers.
pub(super) const LARGEST_REQUEST: usize = 16 << 10;

/// Keeps requests small, and reports to one at a time on a connection: a layer for the server.
///
/// A second report waits for the first, and what the peer sends of it waits in its window. It is not refused, because a client that gave a
/// report up may well begin another before we have noticed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestBounds;

impl<S> Layer<S> for RequestBounds {
    type Service = BoundedRequests<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BoundedRequests { inner }
    }
}

/// A service that reads no more than it has to.
#[derive(Debug, Clone)]
pub(crate) struct BoundedRequests<S> {
    inner: S,
}

impl<S, Out> Service<Request<Body>> for BoundedRequests<S>
where
    S: Service<Request<Body>, Response = Response<Out>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != REPORT {
            return Box::pin(self.inner.call(request.map(small)));
        }
        let place =
            connection_in(request.extensions()).map(|connection| connection.place_for_report());
        // Nothing is read before this is waited for.
        let call = self.inner.call(request);
        Box::pin(async move {
            let _place = match place {
                // It fails when the places are closed, which they never are.
                Some(place) => place.acquire_owned().await.ok(),
                None => None,
            };
            call.await
        })
    }
}

fn small(body: Body) -> Body {
    Body::new(Limited::new(body, LARGEST_REQUEST).map_err(|error| {
        if error.is::<LengthLimitError>() {
            let why = format!("a request of at most {LARGEST_REQUEST} bytes was expected");
            StdError::from(Status::resource_exhausted(why))
        } else {
            error
        }
    }))
}
