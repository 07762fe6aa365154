//! An endpoint that answers `POST {url}/embeddings` as OpenAI's does: Ollama, vLLM, text-embeddings-inference.
//!
//! Texts leave this machine. They go in batches, some at a time; a busy endpoint is asked again after a while.

mod answer;
mod call;
#[cfg(test)]
mod tests;

use std::sync::Mutex;
use std::thread;

use url::Url;
use zeroize::Zeroizing;

use crate::encoder::Progress;
use crate::folder::settings::{e5_prefix, is_e5};
use crate::{EncodeError, Purpose};
use call::{Caller, Patience};

/// Texts of a request.
const BATCH_TEXTS: usize = 64;
/// Bytes of the texts of a request, unless it is one text.
const BATCH_BYTES: usize = 256 << 10;
/// Requests at a time.
const AT_A_TIME: usize = 4;

/// A model behind an endpoint.
pub(crate) struct Endpoint {
    caller: Caller,
    is_e5: bool,
    dimension: usize,
}

impl Endpoint {
    /// Asks for one vector, with the key that the environment has.
    pub(crate) fn open(url: &Url, model: &str) -> Result<Self, EncodeError> {
        Self::open_with_key(url, model, key(url))
    }

    fn open_with_key(
        url: &Url,
        model: &str,
        key: Option<Zeroizing<String>>,
    ) -> Result<Self, EncodeError> {
        let caller = Caller::new(url, model, key)?;
        // Who opens an endpoint that is not there wants to know now.
        let vectors = caller.embed(&["dimension"], Patience::ForBusy, &|| Ok(()))?;
        Ok(Self { dimension: vectors.len(), is_e5: is_e5(model), caller })
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    pub(crate) fn encode(
        &self,
        texts: &[&str],
        purpose: Purpose,
        progress: &Progress<'_>,
    ) -> Result<Vec<f32>, EncodeError> {
        let mut vectors = vec![0.0; texts.len() * self.dimension];
        let mut batches = Vec::new();
        let mut rest = vectors.as_mut_slice();
        for texts in batches_of(texts) {
            let (rows, behind) = rest.split_at_mut(texts.len() * self.dimension);
            batches.push((texts, rows));
            rest = behind;
        }
        let workers = batches.len().min(AT_A_TIME);
        let batches = Mutex::new(batches.into_iter());
        let failed = Mutex::new(None);
        let work = || {
            loop {
                if failed.lock().expect("no thread panics with it").is_some() {
                    return;
                }
                let Some((texts, rows)) = batches.lock().expect("no thread panics with it").next()
                else {
                    return;
                };
                if let Err(error) = self.batch(texts, purpose, progress, rows) {
                    failed.lock().expect("no thread panics with it").get_or_insert(error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(work);
            }
        });
        match failed.into_inner().expect("no thread panics with it") {
            Some(error) => Err(error),
            None => Ok(vectors),
        }
    }

    fn batch(
        &self,
        texts: &[&str],
        purpose: Purpose,
        progress: &Progress<'_>,
        rows: &mut [f32],
    ) -> Result<(), EncodeError> {
        let prefix = if self.is_e5 { e5_prefix(purpose) } else { "" };
        let prefixed: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let asked: Vec<&str> = prefixed.iter().map(String::as_str).collect();
        let vectors = self.caller.embed(&asked, Patience::ForAll, &|| progress.advance(0))?;
        if vectors.len() != rows.len() {
            return Err(EncodeError::Dimension {
                url: self.caller.shown().to_owned(),
                expected: self.dimension,
                answered: vectors.len() / texts.len(),
            });
        }
        rows.copy_from_slice(&vectors);
        progress.advance(texts.len())
    }
}

/// Whether an endpoint is on this machine.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The key of the environment, which goes over TLS or stays on this machine. The one that is OpenAI's goes to nobody
/// else.
fn key(url: &Url) -> Option<Zeroizing<String>> {
    let local = is_local(url);
    if url.scheme() != "https" && !local {
        return None;
    }
    let variable =
        |name| std::env::var(name).ok().map(Zeroizing::new).filter(|key| !key.is_empty());
    variable("SHARD_EMBEDDINGS_KEY").or_else(|| {
        let is_openai = local || url.host_str() == Some("api.openai.com");
        is_openai.then(|| variable("OPENAI_API_KEY")).flatten()
    })
}

/// Texts in their order, in batches within both limits.
fn batches_of<'a, 't>(texts: &'a [&'t str]) -> Vec<&'a [&'t str]> {
    let mut batches = Vec::new();
    let mut rest = texts;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |text: &&&str| {
            bytes += text.len();
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take(BATCH_TEXTS).take_while(fits).count().max(1);
        let (batch, behind) = rest.split_at(count);
        batches.push(batch);
        rest = behind;
    }
    batches
}
