//! What people and monitoring see over HTTP, read-only: the live page, the same facts as JSON, metrics and health.
//!
//! The page is whole when it arrives and needs nothing but this coordinator. A small script asks for `/live` every second and puts what
//! has changed in its place; without scripts the page loads itself again. The history is rendered once for all requests.

mod access;
mod cache;
mod figures;
mod history;
mod json;
mod listener;
mod status;
#[cfg(test)]
mod tests;

pub(super) use access::Access;
pub(crate) use access::is_ours;
pub(super) use listener::MOST_CONNECTIONS;

use super::shared::Shared;
use agewise_plot::Page;
use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cache::{HistoryCache, Unreadable};
use listener::{HttpListener, Peer};
use std::future::Future;
use std::sync::Arc;
use tokio::net::TcpListener;

pub(crate) const SCRIPT: &str = include_str!("live.js");
/// What the live page adds to the style of the reports.
const STYLE: &str = include_str!("live.css");
const HEAD: &str = include_str!("head.html");
const FOOT: &str = include_str!("foot.html");

const HTML: &str = "text/html; charset=utf-8";

/// Sent with every answer. Figures have widths in their style attributes; browsers ignore everything else that is inline.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    // Connections that wait for another request would take the places of those that have one.
    (header::CONNECTION, "close"),
];

/// Health checks need no token.
const FOR_EVERYONE: [&str; 2] = ["/healthz", "/readyz"];

/// Serves until `shutdown` is ready.
pub(super) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    access: Access,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let router = Router::new()
        .route("/", get(page))
        .route("/live", get(live))
        .route("/live.css", get(style))
        .route("/live.js", get(|| async { answer("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/api/state.json", get(state))
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .layer(middleware::from_fn_with_state(Arc::new(access), guard))
        .with_state(Arc::new(HistoryCache::new(shared)));
    let service = router.into_make_service_with_connect_info::<Peer>();
    let served =
        axum::serve(HttpListener::new(listener), service).with_graceful_shutdown(shutdown).await;
    if let Err(error) = served {
        tracing::error!(%error, "the page cannot be served any more");
    }
}

/// Answers only requests that read, and only those of peers that may.
async fn guard(
    State(access): State<Arc<Access>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let refusal = if FOR_EVERYONE.contains(&request.uri().path()) {
        None
    } else {
        access.refusal(request.uri(), request.headers())
    };
    let mut response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allow = [(header::ALLOW, "GET, HEAD")];
        (StatusCode::METHOD_NOT_ALLOWED, allow, "only GET and HEAD\n").into_response()
    } else if let Some(refusal) = refusal {
        refusal
    } else {
        peer.advance();
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn answer(kind: &'static str, body: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// The whole page.
async fn page(State(cache): State<Arc<HistoryCache>>) -> Response {
    let (status, content) = content(&cache, "").await;
    (status, answer(HTML, format!("{HEAD}{content}{FOOT}"))).into_response()
}

/// The parts that may have changed; without the history, if the page has it already (`have=VERSION`).
async fn live(State(cache): State<Arc<HistoryCache>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let had = query.split('&').find_map(|pair| pair.strip_prefix("have=")).unwrap_or_default();
    let (status, content) = content(&cache, had).await;
    (status, answer(HTML, content)).into_response()
}

async fn content(cache: &HistoryCache, had: &str) -> (StatusCode, String) {
    let live = cache.shared.live();
    match cache.past(live.as_ref()).await {
        Ok(past) => {
            let mut content = status::section(live.as_ref(), Some(&past.seen));
            if past.version != had {
                content.push_str(&past.html);
            }
            (StatusCode::OK, content)
        }
        Err(Unreadable) => (StatusCode::SERVICE_UNAVAILABLE, status::section(live.as_ref(), None)),
    }
}

async fn style() -> Response {
    let (reports, _) = Page::new("").to_parts();
    answer("text/css; charset=utf-8", format!("{reports}\n{STYLE}"))
}

async fn state(State(cache): State<Arc<HistoryCache>>) -> Response {
    let live = cache.shared.live();
    let (status, body) = match cache.past(live.as_ref()).await {
        Ok(past) => (StatusCode::OK, json::state(live.as_ref(), &past.seen)),
        Err(Unreadable) => (StatusCode::SERVICE_UNAVAILABLE, json::unreadable()),
    };
    (status, answer("application/json", body)).into_response()
}

async fn metrics(State(cache): State<Arc<HistoryCache>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    answer(kind, cache.shared.metrics_text())
}

async fn ready(State(cache): State<Arc<HistoryCache>>) -> impl IntoResponse {
    // This path needs no token, so it does not say what is wrong.
    match cache.shared.not_ready() {
        None => {
            let warnings = cache.shared.live().map_or(0, |live| live.warnings.len());
            let more = match warnings {
                0 => String::new(),
                1 => ", 1 warning: see agewise status".to_string(),
                count => format!(", {count} warnings: see agewise status"),
            };
            (StatusCode::OK, format!("ready{more}\n"))
        }
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_string()),
    }
}
