//! Figures for Prometheus.
//!
//! Every series is registered here, before the first request: a client can choose no label, and
//! no number of series grows with what is served.

use std::sync::Arc;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use shard_protocol::{Operation, RefusalCode};

use super::refused::Refused;
use crate::{BlockCounts, Figure, SessionCounts, Stages};

/// Upper bounds of the histograms' buckets, in seconds.
const BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Classes of refusals in the order of their counters, with their names.
const CLASSES: [(RefusalCode, &str); 17] = [
    (RefusalCode::Malformed, "malformed"),
    (RefusalCode::UnknownEpoch, "unknown_epoch"),
    (RefusalCode::UnknownRow, "unknown_row"),
    (RefusalCode::WrongWidth, "wrong_width"),
    (RefusalCode::UnknownSession, "unknown_session"),
    (RefusalCode::Internal, "internal"),
    (RefusalCode::Version, "version"),
    (RefusalCode::UnknownCollection, "unknown_collection"),
    (RefusalCode::UnknownBlob, "unknown_blob"),
    (RefusalCode::Stale, "stale"),
    (RefusalCode::Unauthorised, "unauthorised"),
    (RefusalCode::Forbidden, "forbidden"),
    (RefusalCode::Busy, "busy"),
    (RefusalCode::TooLarge, "too_large"),
    (RefusalCode::Storage, "storage"),
    (RefusalCode::Forked, "forked"),
    (RefusalCode::Damaged, "damaged"),
];

/// What a served request adds to the figures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) bytes_in: usize,
    pub(super) bytes_out: usize,
    /// Reading the body.
    pub(super) read: Duration,
    /// Waiting for a worker.
    pub(super) queue: Duration,
    pub(super) stages: Stages,
    /// From the headers to the answer's first byte.
    pub(super) total: Duration,
}

/// Live values that are asked for when the figures are.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    pub(super) waiting: usize,
    pub(super) computing: usize,
    pub(super) held_bytes: usize,
    pub(super) open_connections: usize,
    pub(super) sessions: SessionCounts,
    pub(super) blocks: BlockCounts,
    pub(super) cluster: Option<ClusterLevels>,
    /// Since tokens were read, where they are in a table.
    pub(super) tokens_age: Option<Duration>,
    pub(super) engine: Vec<Figure>,
}

/// Live values of a server that works beside others.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterLevels {
    /// Servers that it counts on, itself included.
    pub(super) servers: usize,
    /// Since its lease was renewed.
    pub(super) lease_age: Duration,
    /// What the last load of blocks took.
    pub(super) load: Duration,
    /// Since it last looked whether collections have moved on.
    pub(super) heads_age: Duration,
    /// Collections that have moved on to a commit that it does not hold yet.
    pub(super) behind: usize,
}

/// See [`Metrics::begin`].
pub(super) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// The server's series.
pub(super) struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    pub(super) connections: Counter,
    pub(super) connections_refused: Counter,
    pub(super) send: Histogram,
    in_flight: Gauge,
    requests: Vec<(Counter, Histogram)>,
    refusals: Vec<Counter>,
    bytes_in: Counter,
    bytes_out: Counter,
    stages: [Histogram; 6],
}

impl Metrics {
    pub(super) fn new() -> Self {
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS);
        let recorder = Arc::new(builder.expect("the buckets are not empty").build_recorder());
        let handle = recorder.handle();
        metrics::with_local_recorder(&*recorder, describe);
        let stage = |name: &'static str| histogram!("shard_stage_seconds", "stage" => name);
        metrics::with_local_recorder(&*recorder, || Self {
            connections: counter!("shard_connections_total"),
            connections_refused: counter!("shard_connections_refused_total"),
            send: stage("send"),
            in_flight: gauge!("shard_requests_in_flight"),
            requests: Operation::ALL
                .iter()
                .map(|operation| {
                    let name = operation.path();
                    let count = counter!("shard_requests_total", "operation" => name);
                    (count, histogram!("shard_request_seconds", "operation" => name))
                })
                .collect(),
            refusals: CLASSES
                .iter()
                .map(|(_, class)| counter!("shard_refusals_total", "class" => *class))
                .collect(),
            bytes_in: counter!("shard_body_bytes_total", "direction" => "in"),
            bytes_out: counter!("shard_body_bytes_total", "direction" => "out"),
            stages: ["read", "queue", "decode", "engine", "score", "encode"].map(stage),
            recorder: recorder.clone(),
            handle,
        })
    }

    /// Counts a request as in flight until the value is dropped, which is also what happens when
    /// the peer goes away.
    pub(super) fn begin(&self) -> InFlight {
        self.in_flight.increment(1.0);
        InFlight(self.in_flight.clone())
    }

    /// Counts a request that was answered.
    pub(super) fn answered(&self, operation: Operation, measured: &Measured) {
        let at = Operation::ALL.iter().position(|known| *known == operation);
        let (count, seconds) = &self.requests[at.expect("ALL lists every operation")];
        count.increment(1);
        seconds.record(measured.total);
        self.bytes_in.increment(measured.bytes_in as u64);
        self.bytes_out.increment(measured.bytes_out as u64);
        let stages = measured.stages;
        let times = [
            measured.read,
            measured.queue,
            stages.decode,
            stages.engine,
            stages.score,
            stages.encode,
        ];
        for (histogram, time) in self.stages.iter().zip(times).filter(|(_, time)| !time.is_zero()) {
            histogram.record(time);
        }
    }

    /// Counts a refusal.
    pub(super) fn refused(&self, refused: &Refused) {
        let code = refused.refusal.code;
        let at = CLASSES.iter().position(|(known, _)| *known == code);
        self.refusals[at.expect("CLASSES lists every class")].increment(1);
    }

    /// Empties the histograms' buffers; wanted now and then, also when nobody asks for figures.
    pub(super) fn maintenance(&self) {
        self.handle.run_upkeep();
    }

    /// All figures, in Prometheus' text form.
    pub(super) fn render(&self, levels: &Levels) -> String {
        metrics::with_local_recorder(&*self.recorder, || {
            gauge!("shard_queue_waiting").set(levels.waiting as f64);
            gauge!("shard_computing").set(levels.computing as f64);
            gauge!("shard_body_bytes_held").set(levels.held_bytes as f64);
            gauge!("shard_connections_open").set(levels.open_connections as f64);
            gauge!("shard_sessions_open").set(levels.sessions.open as f64);
            gauge!("shard_sessions_bytes").set(levels.sessions.bytes as f64);
            gauge!("shard_blind_collections").set(levels.blocks.collections as f64);
            gauge!("shard_blind_bytes").set(levels.blocks.bytes as f64);
            counter!("shard_blind_passes_total").absolute(levels.blocks.passes);
            counter!("shard_blind_queries_total").absolute(levels.blocks.queries);
            gauge!("shard_blind_pass_seconds_total").set(levels.blocks.pass_time.as_secs_f64());
            gauge!("shard_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            if let Some(cluster) = &levels.cluster {
                gauge!("shard_cluster_servers").set(cluster.servers as f64);
                gauge!("shard_cluster_lease_age_seconds").set(cluster.lease_age.as_secs_f64());
                gauge!("shard_cluster_load_seconds").set(cluster.load.as_secs_f64());
                gauge!("shard_cluster_heads_age_seconds").set(cluster.heads_age.as_secs_f64());
                gauge!("shard_cluster_collections_behind").set(cluster.behind as f64);
            }
            if let Some(age) = levels.tokens_age {
                gauge!("shard_cluster_tokens_age_seconds").set(age.as_secs_f64());
            }
            for (name, value) in &levels.engine {
                gauge!(format!("shard_engine_{name}")).set(*value);
            }
            if let Some(bytes) = resident_bytes() {
                gauge!("process_resident_memory_bytes").set(bytes as f64);
            }
        });
        self.handle.render()
    }
}

fn describe() {
    describe_counter!("shard_requests_total", "Requests answered, refusals included.");
    describe_histogram!("shard_request_seconds", "From the headers of a request to its answer.");
    describe_histogram!("shard_stage_seconds", "Where the time of requests goes.");
    describe_counter!("shard_refusals_total", "Requests refused, by class.");
    describe_counter!("shard_body_bytes_total", "Bytes of bodies.");
    describe_counter!("shard_connections_total", "Connections taken in.");
    describe_counter!("shard_connections_refused_total", "Connections closed for being too many.");
    describe_gauge!("shard_requests_in_flight", "Requests between headers and answer.");
    describe_gauge!("shard_queue_waiting", "Requests that wait for a worker.");
    describe_gauge!("shard_computing", "Requests that are being computed.");
    describe_gauge!("shard_body_bytes_held", "Bytes of bodies in memory.");
    describe_gauge!("shard_connections_open", "Open connections.");
    describe_gauge!("shard_sessions_open", "Sessions whose keys are held.");
    describe_gauge!("shard_sessions_bytes", "Memory of the keys of sessions.");
    describe_gauge!("shard_blind_collections", "Collections whose blocks are in memory.");
    describe_gauge!("shard_blind_bytes", "Memory of blocks and records.");
    describe_counter!(
        "shard_blind_passes_total",
        "Passes over the blocks or the records of a collection."
    );
    describe_counter!("shard_blind_queries_total", "Queries that passes were for.");
    describe_gauge!("shard_blind_pass_seconds_total", "Time of all passes, by the clock.");
    describe_gauge!("shard_cluster_servers", "Servers that are counted on, this one included.");
    describe_gauge!("shard_cluster_lease_age_seconds", "Since the lease was renewed.");
    describe_gauge!("shard_cluster_load_seconds", "What the last load of a share took.");
    describe_gauge!(
        "shard_cluster_heads_age_seconds",
        "Since it was last looked whether collections have moved on."
    );
    describe_gauge!(
        "shard_cluster_collections_behind",
        "Collections that have moved on to a commit that is not loaded yet."
    );
    describe_gauge!("shard_cluster_tokens_age_seconds", "Since tokens were read.");
    describe_gauge!("shard_build_info", "The version that runs.");
    describe_gauge!("process_resident_memory_bytes", "Resident memory of the process.");
}

/// Resident memory, where the system has a file that tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}
