//! `agewise report --serve`: the report of a run while it goes on, on this machine only.
//!
//! The page is the report with the script of the coordinator's live page, which asks once a second and puts what has
//! changed in its place. The run is read as `agewise report` reads it, so a process that plays it is not disturbed.

use super::Failure;
use agewise_experiment::run_dir::LOGS;
use agewise_experiment::{Experiment, RunDir, read};
use agewise_plot::{LivePage, LiveState};
use agewise_report::{ReportSection, page};
use agewise_server::live_page;
use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

/// Rounds may end faster than a report is drawn and read.
const SHORTEST_STAY: Duration = Duration::from_secs(2);

/// Sent with every answer; the page has its own policy.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// The report as it was drawn last.
struct Drawn {
    at: Instant,
    version: String,
    page: Arc<LivePage>,
}

/// A run that is shown.
struct Shown {
    dir: RunDir,
    folders: Vec<PathBuf>,
    name: String,
    last: Mutex<Option<Drawn>>,
}

/// Shows the run until the process is stopped. Where it can be seen is said when it can.
pub(crate) fn serve(
    dir: RunDir,
    folders: Vec<PathBuf>,
    name: String,
    listen: SocketAddr,
    opens: bool,
) -> Result<(), Failure> {
    if !listen.ip().is_loopback() {
        let expected =
            "an address of this machine only, such as 127.0.0.1:7072: the page has no login";
        return Err(agewise_core::Error::new("listen", listen, expected).into());
    }
    let shown = Arc::new(Shown { dir, folders, name, last: Mutex::new(None) });
    // A run that cannot be drawn at all is an error before the page is served.
    shown.draw(String::new())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Io(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let wrong = |error: std::io::Error| Failure::Io(format!("listen = {listen}: {error}"));
        let listener = TcpListener::bind(listen).await.map_err(wrong)?;
        let address = format!("http://{}/", listener.local_addr().map_err(wrong)?);
        let mut out = std::io::stdout();
        // A reader that has gone does not end the page.
        let _ = writeln!(out, "Report: {address} (Ctrl-C ends it)").and_then(|()| out.flush());
        if opens {
            super::web_browser::open(&address)?;
        }
        let router = Router::new()
            .route("/", get(whole))
            .route("/live", get(parts))
            .route("/live.js", get(script))
            .layer(middleware::from_fn(guard))
            .with_state(shown);
        let end = async {
            // Where signals cannot be waited for, the process ends by them.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        axum::serve(listener, router).with_graceful_shutdown(end).await.map_err(wrong)
    })
}

impl Shown {
    /// Changes whenever a log does.
    fn version(&self) -> String {
        let mut hash = DefaultHasher::new();
        let logs = fs::read_dir(self.dir.path().join(LOGS)).into_iter().flatten().flatten();
        let mut logs: Vec<_> = logs
            .filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?)))
            .map(|(name, found)| (name, found.len(), found.modified().ok()))
            .collect();
        logs.sort();
        logs.hash(&mut hash);
        format!("{:016x}", hash.finish())
    }

    /// Reads the run and draws it.
    fn draw(&self, version: String) -> Result<LivePage, Failure> {
        let experiment = Experiment::new(self.dir.read_config()?, &self.folders)?;
        let results = read(&experiment, &self.dir)?;
        let runs = results.records.len();
        let finished = results.records.iter().filter(|record| record.finished).count();
        let rounds: usize = results.records.iter().map(|record| record.rounds.len()).sum();
        let is_over = results.is_finished();
        let section = ReportSection::new(self.name.clone(), &results)?;
        let state = LiveState {
            state: if is_over { "finished" } else { "training" }.to_string(),
            headline: if is_over {
                format!("Finished: {}", self.name)
            } else {
                format!("{finished} of {runs} runs finished: {}", self.name)
            },
            detail: format!(
                "{rounds} rounds have been played. The page follows the run by itself."
            ),
            source: "The report".to_string(),
            version,
        };
        Ok(page(&[section])?.to_live(&state))
    }

    /// The report up to about now.
    async fn page(self: Arc<Self>) -> Result<(String, Arc<LivePage>), Failure> {
        // A request that comes while it is drawn waits here, and gets the same drawing.
        let mut last = self.last.lock().await;
        let version = self.version();
        if let Some(drawn) = last.as_ref()
            && (drawn.version == version || drawn.at.elapsed() < SHORTEST_STAY)
        {
            return Ok((drawn.version.clone(), drawn.page.clone()));
        }
        let (shown, drawn_version) = (self.clone(), version.clone());
        let drawn = tokio::task::spawn_blocking(move || shown.draw(drawn_version)).await;
        let page =
            drawn.map_err(|error| Failure::Io(format!("cannot draw the report: {error}")))?;
        let page = Arc::new(page?);
        *last = Some(Drawn { at: Instant::now(), version: version.clone(), page: page.clone() });
        Ok((version, page))
    }
}

/// Answers only requests that read, and only for names of this machine: a page from elsewhere whose name points here
/// would be the same site as ours.
async fn guard(request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST);
    let is_ours = |host: &HeaderValue| host.to_str().is_ok_and(live_page::is_this_machine);
    let mut response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
        (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")], "only GET and HEAD\n")
            .into_response()
    } else if hosts.iter().next().is_none() || !hosts.iter().all(is_ours) {
        (StatusCode::MISDIRECTED_REQUEST, "this is not the page of that host\n").into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn whole(State(shown): State<Arc<Shown>>) -> Response {
    answer(shown.page().await.map(|(_, page)| page.whole.clone()))
}

/// What may have changed; without the report, if the page has it already (`have=VERSION`).
async fn parts(State(shown): State<Arc<Shown>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let had = query.split('&').find_map(|pair| pair.strip_prefix("have=")).unwrap_or_default();
    answer(shown.page().await.map(|(version, page)| {
        let past = if version == had { "" } else { &page.past };
        format!("{}{past}", page.now)
    }))
}

async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], live_page::SCRIPT).into_response()
}

fn answer(html: Result<String, Failure>) -> Response {
    match html {
        Ok(html) => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response(),
        Err(Failure::BadInput(message) | Failure::Io(message) | Failure::Interrupted(message)) => {
            super::complain(&message);
            (StatusCode::SERVICE_UNAVAILABLE, "the run cannot be read just now\n").into_response()
        }
        Err(Failure::BrokenPipe) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
