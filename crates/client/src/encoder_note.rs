//! What encodes the texts of a vault's documents: a value for the owner and for whoever may search.

use crate::collection::unusable;
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::vault::{Slot, Snapshot, Vault};

const VERSION: u16 = 1;

/// Bytes of an identity or a location at most.
const LONGEST: usize = 65_535;

/// The encoder that the texts of a vault's documents went through, and that queries have to go through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncoderNote {
    /// What it is: two models of one identity give a text the same vector; of an endpoint it is only what
    /// the model is called there. The first texts that are ingested fix it.
    pub identity: String,
    /// Where it was found last. Another machine may have it elsewhere: the identity decides.
    pub location: String,
}

impl EncoderNote {
    pub(crate) fn read(snapshot: &Snapshot) -> Result<Option<Self>, ClientError> {
        if !snapshot.contains(Slot::Encoder) {
            return Ok(None);
        }
        Self::decode(&snapshot.read(Slot::Encoder)?).map(Some).map_err(unusable("encoder"))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        writer.string(&self.identity);
        writer.string(&self.location);
        writer.bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let note = Self { identity: reader.string()?, location: reader.string()? };
        reader.finish()?;
        note.check()
            .map_err(|_| PayloadError::Invalid("its length is that of no encoder".into()))?;
        Ok(note)
    }

    /// It has an identity, and neither part is endless.
    fn check(&self) -> Result<(), ClientError> {
        let sound = |text: &str| text.len() <= LONGEST;
        if self.identity.is_empty() || !sound(&self.identity) || !sound(&self.location) {
            let problem = format!("the name of an encoder has 1 to {LONGEST} bytes");
            return Err(ClientError::Setting(problem));
        }
        Ok(())
    }

    /// What is to be written where a vault holds `held`: nothing if it is the same.
    ///
    /// # Errors
    /// When the vault's documents went through another encoder.
    pub(crate) fn over(&self, held: Option<&Self>) -> Result<Option<&Self>, ClientError> {
        self.check()?;
        match held {
            Some(held) if held.identity != self.identity => Err(ClientError::OtherEncoder {
                held: held.identity.clone(),
                given: self.identity.clone(),
            }),
            Some(held) if held == self => Ok(None),
            _ => Ok(Some(self)),
        }
    }
}

/// The encoder of a vault's texts, if texts were ever ingested.
///
/// # Errors
/// When the vault is damaged or the disk refuses.
pub fn encoder_note(vault: &Vault) -> Result<Option<EncoderNote>, ClientError> {
    EncoderNote::read(&vault.snapshot()?)
}
