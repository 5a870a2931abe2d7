//! The listener of the page: the limits of the service, for fewer connections.

use crate::coordinator::connections::{
    Connection, ConnectionCounters, ConnectionStream, Incoming, Limits,
};
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;

/// People look at a page, and a few programs read figures: more than this is a flood.
pub(crate) const MOST_CONNECTIONS: usize = 256;
const LIMITS: Limits = Limits {
    connections: MOST_CONNECTIONS,
    unauthenticated: 64,
    handshake_timeout: Duration::from_secs(15),
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
    /// It has asked for something that it may see: its connection may stay.
    pub(super) fn authenticate(&self) {
        self.0.authenticate();
    }
}

impl Connected<IncomingStream<'_, HttpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, HttpListener>) -> Self {
        Self(stream.io().connection())
    }
}
