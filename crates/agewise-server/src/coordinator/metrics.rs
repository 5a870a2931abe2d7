//! Figures for Prometheus.

use super::connections::ConnectionCounters;
use super::refusal::Reason;
use super::shared::LiveStatus;
use super::storage::ledger::{RoundEnd, RoundOutcome};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

type Float = Gauge<f64, AtomicU64>;
type Labels = [(&'static str, &'static str); 1];

/// A metric under this name.
fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// A metric that begins at zero.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    registered(registry, name, help, M::default())
}

/// All figures of a coordinator.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) announcements: Counter,
    pub(crate) storage_failures: Counter,
    pub(crate) sessions_taken_over: Counter,
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
    ready: Gauge,
    warnings: Gauge,
    silence: Float,
    without_model: Gauge,
    accuracy: Float,
    loss: Float,
    cohort: Histogram,
    round_seconds: Histogram,
    aggregate_seconds: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("agewise");
        let r = &mut registry;
        let seconds = || Histogram::new(exponential_buckets(0.01, 2.0, 20));
        let sizes = Histogram::new(exponential_buckets(1.0, 2.0, 16));
        let metrics = Self {
            announcements: add(r, "announcements", "Announcements sent"),
            storage_failures: add(r, "storage_failures", "Failures of the disk or the ledger"),
            sessions_taken_over: add(
                r,
                "sessions_taken_over",
                "Sessions that ended because the same client began another one beside them",
            ),
            bytes: add(r, "bytes", "Bytes of models sent and updates received"),
            rounds: add(r, "rounds", "Rounds that ended, by outcome"),
            joins: add(r, "joins", "Clients that asked to take part, by outcome"),
            reports: add(r, "reports", "Reports, by outcome"),
            refusals: add(r, "refusals", "Refused requests, by reason"),
            connections: add(r, "connections", "Connections, and of them unauthenticated ones"),
            opened: add(r, "connections_opened", "Connections that were accepted"),
            closed: add(
                r,
                "connections_closed",
                "Connections closed by the coordinator, by reason",
            ),
            round: add(r, "round", "The present round, from 0"),
            enrolled: add(r, "clients_enrolled", "Clients of the run"),
            connected: add(r, "clients_connected", "Clients that listen"),
            target: add(r, "cohort_target", "Clients that a round aims at"),
            selected: add(r, "cohort_selected", "Clients that joined this round"),
            reported: add(r, "cohort_reported", "Reports of this round"),
            interval: add(r, "interval_rounds", "Interval of the age laws"),
            ready: add(
                r,
                "ready",
                "1 if the run can go on, 0 if the disk, the ledger or the driver fails",
            ),
            warnings: add(r, "warnings", "Warnings for the operator: see agewise status"),
            silence: add(r, "driver_silence_seconds", "Time since the driver last looked around"),
            without_model: add(r, "rounds_without_model", "Rounds since the last model"),
            accuracy: add(r, "model_accuracy", "Test accuracy of the last model"),
            loss: add(r, "model_loss", "Test loss of the last model"),
            cohort: registered(r, "cohort_size", "Clients of a round", sizes),
            round_seconds: registered(r, "round_seconds", "Time of a round", seconds()),
            aggregate_seconds: registered(
                r,
                "aggregate_seconds",
                "Time from the last report to the next model",
                seconds(),
            ),
            registry,
        };
        let m = &metrics;
        // Alerts on a rate need the series before the first event.
        for &reason in Reason::ALL {
            drop(m.refusals.get_or_create(&[("reason", reason.name())]));
        }
        for outcome in ["accepted", "late", "refused"] {
            drop(m.reports.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in RoundOutcome::ALL {
            drop(m.rounds.get_or_create(&[("outcome", outcome.name())]));
        }
        metrics
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
        self.without_model.set(live.without_model as i64);
    }

    pub(crate) fn end_round(&self, end: &RoundEnd, selected: usize, aggregated: Duration) {
        self.rounds.get_or_create(&[("outcome", end.outcome.name())]).inc();
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

    /// Sets the figures about health.
    pub(crate) fn show_health(&self, is_ready: bool, warnings: Option<usize>, silence: Duration) {
        self.ready.set(i64::from(is_ready));
        self.warnings.set(warnings.unwrap_or(0) as i64);
        self.silence.set(silence.as_secs_f64());
    }

    /// Sets the figures about connections.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    /// A file of the repository, which a package of this crate does not have.
    fn repository(name: &str) -> String {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        std::fs::read_to_string(Path::new(root).join(name)).unwrap()
    }

    /// The names of all series, under which Prometheus keeps them, by the name of their metric.
    fn series() -> BTreeMap<String, Vec<String>> {
        let metrics = Metrics::new();
        // Families are shown from their first label on.
        metrics.join("selected");
        metrics.moved("sent", 1);
        metrics.show_connections(&ConnectionCounters::default());
        let text = metrics.text();
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let ends = |kind| match kind {
            "counter" => &["_total"][..],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let named =
            |name: &str, kind| ends(kind).iter().map(|end| format!("{name}{end}")).collect();
        kinds.map(|(name, kind)| (name.to_string(), named(name, kind))).collect()
    }

    /// The names of our series in an expression or a file of them.
    fn mentioned(text: &str) -> BTreeSet<String> {
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("agewise_"));
        words.map(String::from).collect()
    }

    /// Every metric of the example alerts is one of ours.
    #[test]
    fn the_example_alerts_are_about_metrics_that_there_are() {
        let alerts = repository("docs/alerts.yml");
        let series: BTreeSet<String> = series().into_values().flatten().collect();
        let names = mentioned(&alerts);
        for name in &names {
            assert!(series.contains(name), "{name} is in the alerts only");
        }
        assert!(names.len() > 8 && alerts.contains("up{job=\"agewise\"} == 0"), "{names:?}");
    }

    /// The expressions of a dashboard, wherever they stand.
    fn expressions(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
            Value::Object(items) => {
                let text = items.get("expr").or_else(|| items.get("definition"));
                found.extend(text.and_then(Value::as_str).map(String::from));
                items.values().for_each(|item| expressions(item, found));
            }
            _ => {}
        }
    }

    /// Every metric of the dashboard is one of ours, and all of ours are on it.
    #[test]
    fn the_dashboard_shows_the_metrics_that_there_are() {
        let dashboard: Value =
            serde_json::from_str(&repository("container/grafana/agewise.json")).unwrap();
        let mut asked = Vec::new();
        expressions(&dashboard, &mut asked);
        assert!(asked.len() > 25, "{asked:?}");
        let names = mentioned(&asked.join("\n"));
        let series = series();
        for name in &names {
            let is_ours = series.values().flatten().any(|ours| ours == name);
            assert!(is_ours, "{name} is on the dashboard only");
        }
        for (metric, ours) in &series {
            assert!(
                ours.iter().any(|name| names.contains(name)),
                "{metric} is not on the dashboard"
            );
        }
    }
}
