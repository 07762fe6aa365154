//! The encoder of a vault.

use std::ops::ControlFlow;

use shard_client::{ClientError, Progress, Watch};
use shard_encode::{EncodeError, Encoder, Location, Purpose};
use shard_geometry::VectorSet;

use crate::{Error, Vault};

impl Vault {
    /// Opens the encoder that the vault's texts went through: where `elsewhere` says, or else where it was
    /// found last, if that is a folder. What is there must be that very encoder. A vault without texts takes any.
    ///
    /// # Errors
    /// When the vault knows of none and `elsewhere` says nothing, there is none or another one, or it
    /// cannot be read.
    pub fn open_encoder(&self, elsewhere: Option<&Location>) -> Result<Encoder, Error> {
        let location = match (elsewhere, self.encoder()?) {
            (Some(location), _) => location.clone(),
            (None, Some(note)) if !note.location.is_empty() => match note.location.parse()? {
                // Whoever could write the note could have every query, and the key, sent anywhere.
                Location::Endpoint { .. } => {
                    return Err(Error::NotedEndpoint { location: note.location });
                }
                folder => folder,
            },
            (None, Some(note)) => return Err(Error::EncoderUnknown { identity: note.identity }),
            (None, None) => return Err(Error::NoEncoder),
        };
        let encoder = Encoder::open(&location)?;
        self.check_encoder(&encoder)?;
        Ok(encoder)
    }

    /// Refuses an encoder that is not the one of the vault's texts. A vault without texts takes any.
    ///
    /// # Errors
    /// When it is another one, or the vault is damaged.
    pub fn check_encoder(&self, encoder: &Encoder) -> Result<(), Error> {
        let given = encoder.identity();
        match self.encoder()? {
            Some(note) if note.identity != given => {
                let (held, given) = (note.identity, given.to_owned());
                Err(ClientError::OtherEncoder { held, given }.into())
            }
            _ => Ok(()),
        }
    }
}

/// The vectors of queries, to search with.
///
/// # Errors
/// When the encoder fails, or `watch` ended it.
pub fn encode_queries<S: AsRef<str> + Sync>(
    encoder: &Encoder,
    queries: &[S],
    watch: &Watch<'_>,
) -> Result<VectorSet, Error> {
    let told = |done: usize, total: usize| -> ControlFlow<()> {
        watch(Progress { done: done as u64, total: total as u64 })
    };
    match encoder.encode(queries, Purpose::Query, &told) {
        Err(EncodeError::Ended) => Err(ClientError::Cancelled.into()),
        outcome => Ok(VectorSet::new(encoder.dimension(), outcome?)?),
    }
}
