//! What both sides call things over HTTP. Paths are relative to the server's address.

use std::fmt::Display;

use crate::operation::Operation;

/// The media type of a body that is a message.
pub const MEDIA_TYPE: &str = "application/vnd.shard.v1";

/// The header with the versions of server and messages: `0.1.0; wire=1`.
pub const VERSION_HEADER: &str = "shard-version";

/// The header with the latest published revision of the collection.
pub const REVISION_HEADER: &str = "shard-revision";

/// Lists the collections.
pub const COLLECTIONS: &str = "v1/collections";

/// Has the engine rewrite its rows.
pub const COMPACT: &str = "v1/admin/compact";

/// Has the engine copy its rows.
pub const SNAPSHOT: &str = "v1/admin/snapshot";

/// Whether the process answers.
pub const HEALTH: &str = "healthz";

/// Whether requests are welcome.
pub const READINESS: &str = "readyz";

/// Figures for Prometheus.
pub const METRICS: &str = "metrics";

/// Where a collection is described and dropped. Its name may be a placeholder of a router.
pub fn collection(name: impl Display) -> String {
    format!("{COLLECTIONS}/{name}")
}

/// Where a collection takes the messages of an operation.
pub fn operation(name: impl Display, operation: Operation) -> String {
    format!("{COLLECTIONS}/{name}/{}", operation.path())
}
