//! The front door: an encoder, wherever it is.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Mutex;

use crate::bert::{Bert, Configuration};
#[cfg(feature = "endpoint")]
use crate::endpoint::Endpoint;
use crate::fixed::{self, Fixed};
use crate::folder::settings::Parts;
use crate::folder::{Folder, Tokens, Weights};
use crate::{EncodeError, Location};
use data_encoding::HEXLOWER;

/// What a text is encoded for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// To search with.
    Query,
    /// To be found.
    Passage,
}

/// Turns texts into vectors. Opened once, used from any thread.
pub struct Encoder {
    kind: Kind,
    identity: String,
}

enum Kind {
    Bert(Box<Bert>),
    Fixed(Box<Fixed>),
    #[cfg(feature = "endpoint")]
    Endpoint(Box<Endpoint>),
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Reads the model of a folder, or asks an endpoint for one vector to know its dimension.
    ///
    /// An endpoint is talked to with blocking calls: within an asynchronous runtime, open and use it on a thread that may
    /// block.
    ///
    /// # Errors
    /// [`EncodeError`] says which file is missing, damaged or unsupported, or why the endpoint did not answer.
    pub fn open(location: &Location) -> Result<Self, EncodeError> {
        match location {
            Location::Folder(path) => Self::open_folder(path),
            #[cfg(feature = "endpoint")]
            Location::Endpoint { url, model } => {
                let endpoint = Endpoint::open(url, model)?;
                let identity = format!("endpoint {model}");
                Ok(Self { kind: Kind::Endpoint(Box::new(endpoint)), identity })
            }
            #[cfg(not(feature = "endpoint"))]
            Location::Endpoint { .. } => Err(EncodeError::NoEndpoints),
        }
    }

    fn open_folder(path: &Path) -> Result<Self, EncodeError> {
        let folder = Folder::open(path)?;
        let parts = Parts::of(&folder)?;
        let file = parts.transformer.weights()?;
        let weights = Weights::open(&file)?;
        if fixed::table(&weights).is_some() {
            let (model, digest) = Fixed::open(&folder, &parts, &file, &weights)?;
            let identity = format!("static sha256:{}", HEXLOWER.encode(&digest));
            return Ok(Self { kind: Kind::Fixed(Box::new(model)), identity });
        }
        let configuration: Option<Configuration> =
            parts.transformer.configuration("config.json")?;
        let configuration = configuration.ok_or_else(|| EncodeError::Missing {
            file: parts.transformer.path().join("config.json"),
            purpose: "it says which model the weights are of",
        })?;
        let (model, digest) = Bert::open(&folder, &parts, &file, weights, &configuration)?;
        let identity = format!("bert sha256:{}", HEXLOWER.encode(&digest));
        Ok(Self { kind: Kind::Bert(Box::new(model)), identity })
    }

    /// A stable name of what the vectors depend on: `bert sha256:<hex>` or `static sha256:<hex>` over weights, tokenizer
    /// and the configuration that matters, or `endpoint <model>`.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// How many values a vector has.
    pub fn dimension(&self) -> usize {
        match &self.kind {
            Kind::Bert(model) => model.dimension(),
            Kind::Fixed(model) => model.dimension(),
            #[cfg(feature = "endpoint")]
            Kind::Endpoint(endpoint) => endpoint.dimension(),
        }
    }

    /// The vectors of texts: `texts.len() * dimension` values, row after row in the order of the texts, of unit length
    /// where the model says so.
    ///
    /// Texts longer than the model are cut ([`Encoder::pieces`] cuts them beforehand). `watch` is told how many texts are
    /// done, of how many, at the beginning and after each batch, from any thread but never by two at a time; it ends the
    /// work by breaking.
    ///
    /// # Errors
    /// [`EncodeError::Ended`] when `watch` broke; else what the tokenizer or the endpoint refused.
    pub fn encode<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
        purpose: Purpose,
        watch: &(dyn Fn(usize, usize) -> ControlFlow<()> + Sync),
    ) -> Result<Vec<f32>, EncodeError> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let progress = Progress::begin(texts.len(), watch)?;
        let vectors = match &self.kind {
            Kind::Bert(model) => model.encode(&texts, purpose, &progress),
            Kind::Fixed(model) => model.encode(&texts, &progress),
            #[cfg(feature = "endpoint")]
            Kind::Endpoint(endpoint) => endpoint.encode(&texts, purpose, &progress),
        }?;
        let dimension = self.dimension();
        match vectors.iter().position(|value| !value.is_finite()) {
            Some(at) => Err(EncodeError::NotFinite { index: at / dimension }),
            None => Ok(vectors),
        }
    }

    /// Byte ranges of pieces of at most `size` tokens of which each shares `overlap` tokens with the one before; no
    /// character is cut. The model's own tokens, such as `[CLS]`, and the words before a text are not counted: leave
    /// room for them.
    ///
    /// An endpoint does not show its tokenizer: there a run of letters and digits counts as one token, and so does every
    /// other visible character. Models have more tokens than that, by about a third in English.
    ///
    /// # Errors
    /// [`EncodeError::Pieces`] where the overlap is not smaller than the size.
    pub fn pieces(
        &self,
        text: &str,
        size: usize,
        overlap: usize,
    ) -> Result<Vec<Range<usize>>, EncodeError> {
        let places = match self.tokens() {
            Some(tokens) => tokens.places(text)?,
            None => crate::pieces::words(text),
        };
        crate::pieces::pieces(text, &places, size, overlap)
    }

    /// How many tokens of a passage are read at most where `before` stands before it: what the model reads,
    /// without its own tokens and the words that it puts before passages. `usize::MAX` where there is no limit,
    /// or an endpoint does not tell.
    ///
    /// # Errors
    /// When `before` cannot be tokenized.
    pub fn room_behind(&self, before: &str) -> Result<usize, EncodeError> {
        let prefix = match &self.kind {
            Kind::Bert(model) => model.prefix(Purpose::Passage),
            _ => "",
        };
        self.tokens()
            .map_or(Ok(usize::MAX), |tokens| tokens.room_behind(&format!("{prefix}{before}")))
    }

    fn tokens(&self) -> Option<&Tokens> {
        match &self.kind {
            Kind::Bert(model) => Some(model.tokens()),
            Kind::Fixed(model) => Some(model.tokens()),
            #[cfg(feature = "endpoint")]
            Kind::Endpoint(_) => None,
        }
    }
}

/// How many texts are done, told to the caller, who may end it.
pub(crate) struct Progress<'a> {
    total: usize,
    done: Mutex<usize>,
    watch: &'a (dyn Fn(usize, usize) -> ControlFlow<()> + Sync),
}

impl<'a> Progress<'a> {
    pub(crate) fn begin(
        total: usize,
        watch: &'a (dyn Fn(usize, usize) -> ControlFlow<()> + Sync),
    ) -> Result<Self, EncodeError> {
        let progress = Self { total, done: Mutex::new(0), watch };
        progress.advance(0)?;
        Ok(progress)
    }

    /// So many more are done.
    pub(crate) fn advance(&self, texts: usize) -> Result<(), EncodeError> {
        // A caller that panicked is on its way up already.
        let mut done = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *done += texts;
        match (self.watch)(*done, self.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(EncodeError::Ended),
        }
    }
}

/// Brings a vector to length one; one of zeros stays.
pub(crate) fn unit(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|&value| f64::from(value).powi(2)).sum();
    if square > 0.0 {
        let scale = square.sqrt().recip() as f32;
        vector.iter_mut().for_each(|value| *value *= scale);
    }
}
