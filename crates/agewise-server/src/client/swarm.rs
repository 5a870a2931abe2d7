//! Many clients in one process, for trials and load tests.

use super::{Client, ClientError, ClientParams, Event, TaskProvider};
use crate::crypto::Identity;
use crate::crypto::token::Token;
use crate::tls::Trust;
use agewise_core::Error;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Clients of one process.
#[derive(Debug, Clone)]
pub struct SwarmParams {
    /// Where the coordinator is.
    pub coordinator: String,
    /// Which certificates are trusted.
    pub trust: Trust,
    /// Clients are called by this, a dash and their number.
    pub prefix: String,
    /// A folder with one folder for each client; none, and they remember nothing.
    pub state: Option<PathBuf>,
    /// Keys of the clients, by number, instead of those in their states.
    pub identities: Vec<Identity>,
    /// Tokens of the clients, by number; a client that has enrolled before needs none.
    pub tokens: Vec<Token>,
    /// The longest pause between two tries to reach the coordinator.
    pub longest_pause: Duration,
}

impl SwarmParams {
    /// A swarm for this coordinator.
    pub fn new(coordinator: impl Into<String>) -> Self {
        let ClientParams { coordinator, trust, longest_pause, .. } = ClientParams::new(coordinator);
        Self {
            coordinator,
            trust,
            prefix: "swarm".to_string(),
            state: None,
            identities: Vec::new(),
            tokens: Vec::new(),
            longest_pause,
        }
    }

    fn client(&self, number: usize) -> ClientParams {
        let name = format!("{}-{number:05}", self.prefix);
        ClientParams {
            coordinator: self.coordinator.clone(),
            trust: self.trust.clone(),
            state: self.state.as_ref().map(|folder| folder.join(&name)),
            name: Some(name),
            identity: self.identities.get(number).cloned(),
            token: self.tokens.get(number).cloned(),
            longest_pause: self.longest_pause,
        }
    }
}

/// Runs one client for each task until the run is over or `shutdown` is ready. They enrol one after the other, so client i of a
/// new run has the i-th task. `events` gets the events of all clients, with their numbers.
pub async fn run(
    params: SwarmParams,
    tasks: Vec<Box<dyn TaskProvider>>,
    events: Option<UnboundedSender<(usize, Event)>>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ClientError> {
    if tasks.is_empty() {
        return Err(Error::new("clients", 0, "at least 1").into());
    }
    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    tokio::pin!(shutdown);
    for (number, task) in tasks.into_iter().enumerate() {
        let (sender, mut heard) = unbounded_channel();
        let client = tokio::select! {
            client = Client::open(params.client(number), task) => client?.with_events(sender),
            () = &mut shutdown => return Ok(()),
        };
        let mut stopped = stopped.clone();
        clients.spawn(async move {
            client.run(async move { drop(stopped.wait_for(|stop| *stop).await) }).await
        });
        // The next one waits until this one is known, and hears the rest in the background.
        let mut enrolled = false;
        while !enrolled {
            let event = tokio::select! {
                event = heard.recv() => event,
                ended = clients.join_next() => {
                    if let Some(Ok(Err(why))) = ended {
                        return Err(why);
                    }
                    None
                }
                () = &mut shutdown => return Ok(()),
            };
            let Some(event) = event else { break };
            enrolled = matches!(event, Event::Enrolled { .. });
            tell(events.as_ref(), number, event);
        }
        let events = events.clone();
        tokio::spawn(async move {
            while let Some(event) = heard.recv().await {
                tell(events.as_ref(), number, event);
            }
        });
    }
    // One that gives up, because it was revoked for example, does not end the others.
    let (mut first_error, mut finished) = (None, false);
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                None if finished => return Ok(()),
                None => return first_error.map_or(Ok(()), Err),
                Some(Ok(Err(why))) => {
                    first_error.get_or_insert(why);
                }
                Some(_) => finished = true,
            },
            () = &mut shutdown => {
                stop.send(true).ok();
                while clients.join_next().await.is_some() {}
                return Ok(());
            }
        }
    }
}

fn tell(events: Option<&UnboundedSender<(usize, Event)>>, number: usize, event: Event) {
    if let Some(events) = events {
        events.send((number, event)).ok();
    }
}
