//! Texts: into a vault as passages, and back from a search.
//!
//! A document is encoded whole, or in chunks of so many tokens. Each passage is a row of the collection
//! with a record that brings back its text, its title and all other fields of its document; the fields are
//! kept a second time, to filter by.
//!
//! | module | content |
//! |---|---|
//! | `passage` | a passage that was found |
//! | `cut` | documents cut into passages |
//! | `add` | passages encoded and taken into a vault (feature `encode`) |
//! | `encoder` | the encoder of a vault (feature `encode`) |

#[cfg(feature = "encode")]
mod add;
#[cfg(feature = "encode")]
mod cut;
#[cfg(feature = "encode")]
mod encoder;
mod passage;
#[cfg(all(test, feature = "encode"))]
mod tests;

#[cfg(feature = "encode")]
pub use add::TextOptions;
#[cfg(feature = "encode")]
pub use cut::ChunkOptions;
#[cfg(feature = "encode")]
pub use encoder::encode_queries;
pub use passage::Passage;
