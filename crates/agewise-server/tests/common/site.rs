//! A coordinator of plain numbers, and what the world sees of it: a model without training makes every round exact.

use crate::common::{Running, ledger};
use agewise_core::{Start, Weighting};
use agewise_server::CoordinatorParams;
use agewise_server::coordinator::{Coordinator, CoordinatorError};
use agewise_server::protocol::StatusReply;
use agewise_server::protocol::coordinator_client::CoordinatorClient;
use agewise_server::remote::status;
use agewise_server::test_support::Numbers;
use agewise_server::tls::Trust;
use agewise_train::Task;
use agewise_train::checkpoint::Checkpoint;
use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Channel;

/// Far longer than anything here takes, also on a busy machine, and than any window of a coordinator: only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Waits for what has to happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("in vain: {what}"))
}

/// Waits until something is so: asks again and again, and gives up after [`PATIENCE`] only.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(what, waiting).await;
}

/// A connection of its own. The coordinator may still be on its way.
pub(crate) async fn connect(url: &str) -> CoordinatorClient<Channel> {
    let connecting = async {
        loop {
            if let Ok(calls) = CoordinatorClient::connect(url.to_string()).await {
                return calls;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("a connection", connecting).await
}

pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn numbers_in(bytes: &[u8]) -> Vec<f32> {
    let word = |word: &[u8]| f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

/// Settings for raw clients: all ages begin with 0, all updates count the same, and the coordinator calls whom it wants.
pub(crate) fn settings(state: &Path, clients: u64, cohort: u64) -> CoordinatorParams {
    let mut params = crate::common::params(state, "oldest-first", clients, cohort);
    params.round.start = Start::Cold;
    params.round.weighting = Some(Weighting::Uniform);
    params.round.drain_seconds = 0.0;
    params.model.keep = 100;
    params
}

/// A coordinator with everything that can be seen of it.
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) state: PathBuf,
    parameters: usize,
    running: Running,
    web: SocketAddr,
}

impl Site {
    /// Begins a run, or goes on with the one that is there.
    pub(crate) async fn open(params: CoordinatorParams, parameters: usize) -> Self {
        Self::open_with(params, parameters, |coordinator| coordinator).await
    }

    pub(crate) async fn open_with(
        params: CoordinatorParams,
        parameters: usize,
        change: impl FnOnce(Coordinator) -> Coordinator,
    ) -> Self {
        Self::begin(params, Numbers::new(parameters), change).await
    }

    /// The same for a task of one's own.
    pub(crate) async fn open_task(params: CoordinatorParams, task: Numbers) -> Self {
        Self::begin(params, task, |coordinator| coordinator).await
    }

    async fn begin(
        params: CoordinatorParams,
        task: Numbers,
        change: impl FnOnce(Coordinator) -> Coordinator,
    ) -> Self {
        let (state, parameters) = (params.state.clone(), task.parameters());
        let config = params.check().unwrap();
        let (listener, web) = (free().await, free().await);
        let address = web.local_addr().unwrap();
        let coordinator = Coordinator::new(config, Arc::new(task));
        let coordinator = change(coordinator.resuming().with_web(web));
        let running = Running::serve(listener, coordinator);
        Self { url: running.url.clone(), state, parameters, running, web: address }
    }

    /// Hands back the round and stops.
    pub(crate) async fn close(self) {
        self.end().await.unwrap();
    }

    /// Hands back the round and stops, or says what went wrong.
    pub(crate) async fn end(self) -> Result<(), CoordinatorError> {
        let Running { stop, ended, .. } = self.running;
        drop(stop);
        soon("the end of the coordinator", ended).await.unwrap()
    }

    /// Waits until all rounds are over.
    pub(crate) async fn until_the_end(self) {
        let Running { stop, ended, .. } = self.running;
        soon("the end of the run", ended).await.unwrap().unwrap();
        drop(stop);
    }

    /// A whole number from the ledger, as another program reads it.
    pub(crate) fn count(&self, query: &str) -> i64 {
        let found = ledger(&self.state).query_row(query, [], |row| row.get(0));
        found.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// A text from the ledger.
    pub(crate) fn text(&self, query: &str) -> String {
        let found = ledger(&self.state).query_row(query, [], |row| row.get(0));
        found.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// What became of a client in a round.
    pub(crate) fn outcome(&self, round: u64, client: u32) -> String {
        self.text(&format!("SELECT outcome FROM joins WHERE round = {round} AND client = {client}"))
    }

    pub(crate) fn waiting_since(&self, client: u32) -> i64 {
        self.count(&format!("SELECT waiting_since FROM clients WHERE client = {client}"))
    }

    /// Waits until a number in the ledger is this.
    pub(crate) async fn until(&self, query: &str, expected: i64) {
        let is_so = async || self.count(query) == expected;
        eventually(&format!("{query} = {expected}"), is_so).await;
    }

    /// The numbers of a model that was written.
    pub(crate) fn model(&self, version: u64) -> Vec<f32> {
        let path = self.state.join(format!("models/{version:08}.safetensors"));
        let tensors = Numbers::new(self.parameters).tensors();
        Checkpoint::decode(&fs::read(path).unwrap(), &tensors).unwrap().parameters
    }

    /// The one number of which a model consists that was made of such updates.
    pub(crate) fn value(&self, version: u64) -> f32 {
        let model = self.model(version);
        let odd = model.iter().position(|value| *value != model[0]);
        assert_eq!(odd, None, "model {version} has more than one number");
        model[0]
    }

    /// A figure of the metrics.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        self.metrics().await[name]
    }

    /// All figures of the metrics, by name.
    pub(crate) async fn metrics(&self) -> BTreeMap<String, f64> {
        let text = self.get("/metrics").await;
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines.filter_map(|(name, figure)| Some((name.to_string(), figure.parse().ok()?))).collect()
    }

    /// An answer of the HTTP port, with its head.
    pub(crate) async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.web).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        soon("an answer", stream.read_to_string(&mut text)).await.unwrap();
        text
    }

    pub(crate) async fn status(&self) -> StatusReply {
        soon("a status", status(&self.url, &Trust::default(), None)).await.unwrap()
    }
}

async fn free() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}
