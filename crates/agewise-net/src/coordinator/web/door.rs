//! The door of the page: the same as that of the service, for fewer people.

use crate::coordinator::doorway::{DoorCounters, Doorway, Guest, GuestStream, Limits};
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
const LIMITS: Limits =
    Limits { connections: MOST_CONNECTIONS, strangers: 64, patience: Duration::from_secs(15) };

/// Connections within limits.
pub(super) struct Door(Doorway);

impl Door {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self(Doorway::new(listener, LIMITS, Arc::new(DoorCounters::default())))
    }
}

impl Listener for Door {
    type Io = GuestStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (GuestStream, SocketAddr) {
        loop {
            // It never ends, and gives no errors.
            if let Some(Ok(stream)) = self.0.next().await {
                let peer = stream.guest().peer();
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Who asks for something.
#[derive(Debug, Clone)]
pub(super) struct Visitor(Arc<Guest>);

impl Visitor {
    /// It has asked for something that it may see: its connection may stay.
    pub(super) fn welcome(&self) {
        self.0.welcome();
    }
}

impl Connected<IncomingStream<'_, Door>> for Visitor {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(stream.io().guest())
    }
}
