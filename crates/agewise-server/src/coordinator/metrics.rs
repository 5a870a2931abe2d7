//! Figures for Prometheus.

use super::connections::ConnectionCounters;
use super::refusal::Reason;
use super::shared::LiveStatus;
use super::storage::ledger::RoundEnd;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

type Float = Gauge<f64, AtomicU64>;
type Labels = [(&'static str, &'static str); 1];

/// All figures of a coordinator.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) announcements: Counter,
    pub(crate) storage_failures: Counter,
    pub(crate) bytes: Family<Labels, Counter>,
    rounds: Family<Labels, Counter>,
    joins: Family<Labels, Counter>,
    reports: Family<Labels, Counter>,
    refusals: Family<Labels, Counter>,
    connections: Family<Labels, Gauge>,
    opened: Counter,
    closed: Family<Labels, Counter>,
    round: Gauge,
    enrolled: Gauge,
    connected: Gauge,
    target: Gauge,
    selected: Gauge,
    reported: Gauge,
    interval: Float,
    accuracy: Float,
    loss: Float,
    cohort: Histogram,
    round_seconds: Histogram,
    aggregate_seconds: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("agewise");
        let seconds = || Histogram::new(exponential_buckets(0.01, 2.0, 20));
        let metrics = Self {
            announcements: Counter::default(),
            storage_failures: Counter::default(),
            bytes: Family::default(),
            rounds: Family::default(),
            joins: Family::default(),
            reports: Family::default(),
            refusals: Family::default(),
            connections: Family::default(),
            opened: Counter::default(),
            closed: Family::default(),
            round: Gauge::default(),
            enrolled: Gauge::default(),
            connected: Gauge::default(),
            target: Gauge::default(),
            selected: Gauge::default(),
            reported: Gauge::default(),
            interval: Float::default(),
            accuracy: Float::default(),
            loss: Float::default(),
            cohort: Histogram::new(exponential_buckets(1.0, 2.0, 16)),
            round_seconds: seconds(),
            aggregate_seconds: seconds(),
            registry: Registry::default(),
        };
        let m = &metrics;
        registry.register("announcements", "Announcements sent", m.announcements.clone());
        registry.register(
            "storage_failures",
            "Failures of the disk or the ledger",
            m.storage_failures.clone(),
        );
        registry.register("bytes", "Bytes of models sent and updates received", m.bytes.clone());
        registry.register("rounds", "Rounds that ended, by how", m.rounds.clone());
        registry.register("joins", "Clients that asked to take part, by outcome", m.joins.clone());
        registry.register("reports", "Reports, by outcome", m.reports.clone());
        registry.register("refusals", "Refused requests, by reason", m.refusals.clone());
        registry.register(
            "connections",
            "Connections, and of them unauthenticated ones",
            m.connections.clone(),
        );
        registry.register("connections_opened", "Connections that were accepted", m.opened.clone());
        registry.register(
            "connections_closed",
            "Connections that we closed, by why",
            m.closed.clone(),
        );
        registry.register("round", "The present round, from 0", m.round.clone());
        registry.register("clients_enrolled", "Clients of the run", m.enrolled.clone());
        registry.register("clients_connected", "Clients that listen", m.connected.clone());
        registry.register("cohort_target", "Clients that a round aims at", m.target.clone());
        registry.register("cohort_selected", "Clients that joined this round", m.selected.clone());
        registry.register("cohort_reported", "Reports of this round", m.reported.clone());
        registry.register("interval_rounds", "Interval of the age laws", m.interval.clone());
        registry.register("model_accuracy", "Test accuracy of the last model", m.accuracy.clone());
        registry.register("model_loss", "Test loss of the last model", m.loss.clone());
        registry.register("cohort_size", "Clients of a round", m.cohort.clone());
        registry.register("round_seconds", "Time of a round", m.round_seconds.clone());
        registry.register(
            "aggregate_seconds",
            "Time from the last report to the next model",
            m.aggregate_seconds.clone(),
        );
        // Alerts on a rate need the series before the first event.
        for &reason in Reason::ALL {
            drop(m.refusals.get_or_create(&[("reason", reason.name())]));
        }
        for outcome in ["accepted", "late", "refused"] {
            drop(m.reports.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in ["committed", "abandoned"] {
            drop(m.rounds.get_or_create(&[("outcome", outcome)]));
        }
        Self { registry, ..metrics }
    }

    /// The figures that follow from where the run stands.
    pub(crate) fn show(&self, live: &LiveStatus) {
        self.round.set(live.round as i64);
        self.enrolled.set(i64::from(live.enrolled));
        self.connected.set(i64::from(live.connected));
        self.target.set(i64::from(live.target));
        self.selected.set(i64::from(live.selected));
        self.reported.set(i64::from(live.reported));
        self.interval.set(live.interval);
    }

    pub(crate) fn end_round(&self, end: &RoundEnd, selected: usize, aggregated: Duration) {
        let outcome = if end.committed { "committed" } else { "abandoned" };
        self.rounds.get_or_create(&[("outcome", outcome)]).inc();
        self.cohort.observe(selected as f64);
        self.round_seconds.observe(end.seconds);
        self.aggregate_seconds.observe(aggregated.as_secs_f64());
        if let Some(loss) = end.loss {
            self.loss.set(loss);
        }
        if let Some(accuracy) = end.accuracy {
            self.accuracy.set(accuracy);
        }
    }

    pub(crate) fn join(&self, outcome: &'static str) {
        self.joins.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn report(&self, outcome: &'static str) {
        self.reports.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn refuse(&self, reason: &'static str, count: u64) {
        self.refusals.get_or_create(&[("reason", reason)]).inc_by(count);
    }

    pub(crate) fn moved(&self, direction: &'static str, bytes: u64) {
        self.bytes.get_or_create(&[("direction", direction)]).inc_by(bytes);
    }

    /// What happens at the counters.
    pub(crate) fn show_connections(&self, counters: &ConnectionCounters) {
        for (state, count) in
            [("open", counters.open()), ("unauthenticated", counters.unauthenticated())]
        {
            self.connections.get_or_create(&[("state", state)]).set(count as i64);
        }
        self.opened.inner().store(counters.accepted(), Ordering::Relaxed);
        for (why, count) in [
            ("rejected", counters.rejected()),
            ("evicted", counters.evicted()),
            ("timed-out", counters.timed_out()),
        ] {
            self.closed.get_or_create(&[("why", why)]).inner().store(count, Ordering::Relaxed);
        }
    }

    /// All figures, as Prometheus reads them.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        encode(&mut text, &self.registry).ok();
        text
    }
}
