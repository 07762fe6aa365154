//! How messages reach a server.

/// Carries one message to a server and brings its answer back. The embedded server and a
/// network connection look the same from here.
pub trait Transport: Send + Sync {
    /// One exchange.
    fn exchange(
        &self,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;
}
