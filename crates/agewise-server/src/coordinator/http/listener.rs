//! The listener of the page: the limits of the service, for fewer and shorter connections.

use crate::coordinator::connections::{
    Connection, ConnectionCounters, ConnectionStage, ConnectionStream, Incoming, Limits,
};
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;

/// Files for connections: some of those that made room for others are still being closed.
pub(crate) const MOST_CONNECTIONS: usize = 2 * PLACES;
/// People look at a page, and a few programs read figures: more than this is a flood.
const PLACES: usize = 256;
/// A connection brings one request, so this is the time for that and its answer. Its place is the next one's when all are taken, for a
/// page that cannot be reached says nothing about the coordinator. One address may have all places: a proxy needs them.
const LIMITS: Limits = Limits {
    connections: MOST_CONNECTIONS,
    unauthenticated: PLACES,
    per_address: PLACES,
    handshake_timeout: Duration::from_secs(30),
};

/// Connections within limits.
pub(super) struct HttpListener(Incoming);

impl HttpListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self(Incoming::new(listener, LIMITS, Arc::new(ConnectionCounters::default())))
    }
}

impl Listener for HttpListener {
    type Io = ConnectionStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ConnectionStream, SocketAddr) {
        loop {
            // It never ends, and gives no errors.
            if let Some(Ok(stream)) = self.0.next().await {
                let peer = stream.connection().peer();
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// The peer of a request.
#[derive(Debug, Clone)]
pub(super) struct Peer(Arc<Connection>);

impl Peer {
    /// It has asked for something that it may see: silent connections go before this one.
    pub(super) fn advance(&self) {
        self.0.advance(ConnectionStage::Calling);
    }
}

impl Connected<IncomingStream<'_, HttpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, HttpListener>) -> Self {
        Self(stream.io().connection())
    }
}
