//! How messages reach a server.

use std::time::Duration;

/// Carries one message to a server and brings its answer back. The embedded server and a
/// network connection look the same from here. Many threads may exchange messages at once.
pub trait Transport: Send + Sync {
    /// One exchange. A refusal of the request is an answer; an error means that there is none.
    fn exchange(
        &self,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;

    /// Whether messages travel, so that their bytes count.
    fn is_remote(&self) -> bool {
        false
    }

    /// How long the shortest exchange takes, as far as can be told; it may ask the server.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
}

impl<T: Transport + ?Sized> Transport for &T {
    fn exchange(
        &self,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        (**self).exchange(message)
    }

    fn is_remote(&self) -> bool {
        (**self).is_remote()
    }

    fn round_trip(&self) -> Option<Duration> {
        (**self).round_trip()
    }
}
