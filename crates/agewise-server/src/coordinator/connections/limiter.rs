//! Which unauthenticated connections stay when there are too many.
//!
//! Places are shared among addresses, so that a flood from one address costs connections of that address:
//!
//! - An address has at most [`Limits::per_address`](super::Limits::per_address) places. Beyond them its own connections make room.
//! - When all places are taken, the address that has the most of them makes room.
//!
//! Among the connections of an address, those that have come farther in their handshake stay: it is a stage that gives up its oldest
//! connection, the least advanced one that holds at least a quarter of the places of this address. So silent connections push out each other
//! and nothing else. The quarter is for newcomers: connections that are opened, spoken on and then left cannot fill all places, or a
//! newcomer would be the only silent one, and the next one would push it out before it can say a word.

use super::ConnectionCounters;
use super::connection::Connection;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// How far a connection has come that has not authenticated. Every stage needs the peer to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionStage {
    /// It was opened.
    Silent,
    /// Something came in: the beginning of a TLS handshake or of HTTP.
    Speaking,
    /// A call came in, and so TLS and HTTP are behind it.
    Calling,
}

const STAGES: usize = 3;

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    counters: Arc<ConnectionCounters>,
    unauthenticated: Mutex<Unauthenticated>,
}

#[derive(Debug, Default)]
struct Unauthenticated {
    arrivals: u64,
    waiting: HashMap<u64, Waiting>,
    addresses: HashMap<IpAddr, Stages>,
}

#[derive(Debug)]
struct Waiting {
    connection: Arc<Connection>,
    progress: ConnectionStage,
}

/// The connections of one address by stage, and by arrival in each stage, so that the oldest is first.
#[derive(Debug, Default)]
struct Stages([BTreeSet<u64>; STAGES]);

impl Stages {
    fn len(&self) -> usize {
        self.0.iter().map(BTreeSet::len).sum()
    }

    /// The connection that makes room. One of three stages has a third of them at least, so there is one, unless there are none.
    fn first_to_go(&self) -> Option<u64> {
        let least = self.len().div_ceil(STAGES + 1).max(1);
        self.0.iter().find(|stage| stage.len() >= least)?.first().copied()
    }
}

/// What counts as one address: with IPv6 a network of 64 bits, as a peer has all addresses in it.
fn network(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

impl Unauthenticated {
    /// The connection that has to go before another one of this address comes in, if there are too many.
    fn first_to_go(&self, newcomer: IpAddr, most: usize, per_address: usize) -> Option<u64> {
        let own = self.addresses.get(&newcomer);
        if let Some(own) = own.filter(|own| own.len() >= per_address.max(1)) {
            return own.first_to_go();
        }
        if self.waiting.len() < most.max(1) {
            return None;
        }
        // As if the newcomer were there already. Of several addresses with as many places the one whose connection is the oldest makes room.
        let places = |(address, stages): &(&IpAddr, &Stages)| {
            let places = stages.len() + usize::from(**address == newcomer);
            (places, Reverse(stages.first_to_go()))
        };
        self.addresses.iter().max_by_key(places)?.1.first_to_go()
    }

    fn take(&mut self, arrival: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&arrival)?;
        let address = network(waiting.connection.peer());
        if let Some(stages) = self.addresses.get_mut(&address) {
            stages.0[waiting.progress as usize].remove(&arrival);
            if stages.len() == 0 {
                self.addresses.remove(&address);
            }
        }
        Some(waiting)
    }
}

impl ConnectionLimiter {
    pub(super) fn new(counters: Arc<ConnectionCounters>) -> Self {
        Self { counters, unauthenticated: Mutex::default() }
    }

    pub(super) fn counters(&self) -> &ConnectionCounters {
        &self.counters
    }

    /// Closes unauthenticated connections until one more of this peer is within the limits.
    pub(super) fn make_room(&self, peer: SocketAddr, most: usize, per_address: usize) {
        loop {
            let evicted = {
                let mut unauthenticated = self.unauthenticated.lock();
                let first = unauthenticated.first_to_go(network(peer), most, per_address);
                let Some(first) = first else { return };
                let evicted = unauthenticated.take(first);
                self.counters.set_unauthenticated(unauthenticated.waiting.len());
                evicted
            };
            // Outside the lock, because the task that is woken may want it.
            let Some(evicted) = evicted else { return };
            self.counters.evict();
            evicted.connection.disconnect();
        }
    }

    pub(super) fn enter(self: &Arc<Self>, peer: SocketAddr) -> Arc<Connection> {
        let mut unauthenticated = self.unauthenticated.lock();
        let arrival = unauthenticated.arrivals;
        unauthenticated.arrivals += 1;
        let connection = Arc::new(Connection::new(peer, arrival, self.clone()));
        let progress = ConnectionStage::Silent;
        let waiting = Waiting { connection: connection.clone(), progress };
        unauthenticated.waiting.insert(arrival, waiting);
        let stages = unauthenticated.addresses.entry(network(peer)).or_default();
        stages.0[progress as usize].insert(arrival);
        self.counters.open_one();
        self.counters.set_unauthenticated(unauthenticated.waiting.len());
        connection
    }

    /// A connection has come farther; nothing changes if it has authenticated, or is on its way out.
    pub(super) fn advance(&self, connection: &Connection, progress: ConnectionStage) {
        let arrival = connection.arrival();
        let mut unauthenticated = self.unauthenticated.lock();
        let Unauthenticated { waiting, addresses, .. } = &mut *unauthenticated;
        let Some(waiting) = waiting.get_mut(&arrival).filter(|waiting| waiting.progress < progress)
        else {
            return;
        };
        if let Some(stages) = addresses.get_mut(&network(connection.peer())) {
            stages.0[waiting.progress as usize].remove(&arrival);
            stages.0[progress as usize].insert(arrival);
        }
        waiting.progress = progress;
    }

    /// Takes a connection off the list of unauthenticated, and says whether it was there.
    pub(super) fn remove(&self, connection: &Connection) -> bool {
        // It is dropped outside the lock.
        let removed = {
            let mut unauthenticated = self.unauthenticated.lock();
            let removed = unauthenticated.take(connection.arrival());
            self.counters.set_unauthenticated(unauthenticated.waiting.len());
            removed
        };
        removed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limiter with 8 places, of which one address has at most 6.
    struct Trial(Arc<ConnectionLimiter>);

    impl Trial {
        fn new() -> Self {
            Self(Arc::new(ConnectionLimiter::new(Arc::default())))
        }

        fn comes(&self, address: &str) -> Arc<Connection> {
            let peer = SocketAddr::new(address.parse().unwrap(), 1);
            self.0.make_room(peer, 8, 6);
            self.0.enter(peer)
        }

        fn is_waiting(&self, connection: &Connection) -> bool {
            self.0.unauthenticated.lock().waiting.contains_key(&connection.arrival())
        }
    }

    #[test]
    fn a_flood_from_one_address_costs_that_address_only() {
        let trial = Trial::new();
        let honest = ["10.0.0.1", "10.0.0.2", "2001:db8::1"].map(|address| trial.comes(address));
        for _ in 0..100 {
            trial.comes("10.9.9.9");
        }
        // And one that has a network of its own.
        for host in 0..100 {
            trial.comes(&format!("2001:db8:0:1::{host:x}"));
        }
        assert!(honest.iter().all(|connection| trial.is_waiting(connection)));
        assert_eq!(trial.0.counters().unauthenticated(), 8);
        let late = trial.comes("10.0.0.3");
        assert!(trial.is_waiting(&late) && honest.iter().all(|one| trial.is_waiting(one)));
    }

    #[test]
    fn one_address_leaves_places_for_others() {
        let trial = Trial::new();
        for _ in 0..100 {
            trial.comes("10.9.9.9");
        }
        assert_eq!(trial.0.counters().unauthenticated(), 6);
    }

    #[test]
    fn silent_connections_push_out_each_other_and_none_that_speaks() {
        let trial = Trial::new();
        let calling = trial.comes("10.0.0.1");
        let speaking = trial.comes("10.0.0.1");
        for _ in 0..2 {
            speaking.advance(ConnectionStage::Speaking);
            calling.advance(ConnectionStage::Calling);
            // It does not go back.
            calling.advance(ConnectionStage::Speaking);
        }
        for _ in 0..100 {
            trial.comes("10.0.0.1");
        }
        assert!(trial.is_waiting(&calling) && trial.is_waiting(&speaking));
    }

    #[test]
    fn connections_that_call_and_go_no_farther_leave_places_for_newcomers() {
        let trial = Trial::new();
        for _ in 0..100 {
            trial.comes("10.0.0.1").advance(ConnectionStage::Calling);
        }
        // Of six places two are a newcomer's until the second one after it.
        let newcomer = trial.comes("10.0.0.1");
        let next = trial.comes("10.0.0.1");
        assert!(trial.is_waiting(&newcomer) && trial.is_waiting(&next));
        trial.comes("10.0.0.1");
        assert!(!trial.is_waiting(&newcomer) && trial.is_waiting(&next));
    }

    #[test]
    fn one_that_has_gone_leaves_nothing_behind() {
        let trial = Trial::new();
        let connection = trial.comes("10.0.0.1");
        assert!(trial.0.remove(&connection));
        connection.advance(ConnectionStage::Calling);
        assert!(!trial.0.remove(&connection));
        let known = trial.0.unauthenticated.lock();
        assert!(known.waiting.is_empty() && known.addresses.is_empty());
    }
}
