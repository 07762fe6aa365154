//! Text encoders on the command line, and queries as text.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use shard::input::{Holds, holds, read_queries, read_query_texts};
use shard::{Documents, TextDocument, Vault};

/// Which encoder texts go through.
#[derive(Args)]
pub struct EncoderArguments {
    /// The encoder of texts: a folder with a model, or an embeddings endpoint and a model there,
    /// https://HOST/v1#MODEL [default: where the vault's encoder was found last]
    #[arg(long, value_name = "FOLDER|URL#MODEL", env = "SHARD_ENCODER")]
    pub encoder: Option<String>,
}

/// Reads queries: vectors, or texts that are encoded. `ids` are those of a `.npy`.
pub fn queries(
    path: &Path,
    ids: Option<&Path>,
    vault: &Vault,
    encoder: &EncoderArguments,
) -> Result<Documents> {
    if ids.is_some() || holds(path, None)? == Holds::Vectors {
        return Ok(read_queries(path, ids)?);
    }
    encoded(&read_query_texts(path)?, vault, encoder)
}

/// One query, in words.
pub fn query(text: &str, vault: &Vault, encoder: &EncoderArguments) -> Result<Documents> {
    let query =
        TextDocument { id: "0".to_owned(), text: text.to_owned(), ..TextDocument::default() };
    encoded(&[query], vault, encoder)
}

#[cfg(feature = "encode")]
mod with_encoder {
    use anyhow::Context;
    use shard::encode::{Encoder, Location};

    use super::{Documents, EncoderArguments, Result, TextDocument, Vault};
    use crate::output::{follow, progress};

    impl EncoderArguments {
        /// Where the encoder is, if that was said.
        pub fn location(&self) -> Result<Option<Location>> {
            let parse = |text: &String| text.parse().context("--encoder (or SHARD_ENCODER)");
            self.encoder.as_ref().map(parse).transpose()
        }

        /// Opens the encoder of a vault.
        pub fn open(&self, vault: &Vault) -> Result<Encoder> {
            Ok(vault.open_encoder(self.location()?.as_ref())?)
        }
    }

    pub fn encoded(
        queries: &[TextDocument],
        vault: &Vault,
        encoder: &EncoderArguments,
    ) -> Result<Documents> {
        let encoder = encoder.open(vault)?;
        let (ids, texts): (Vec<String>, Vec<String>) =
            queries.iter().map(|query| (query.id.clone(), query.with_title())).unzip();
        let bar = progress("encoding", texts.len());
        let vectors = shard::encode_queries(&encoder, &texts, &follow(&bar));
        bar.finish_and_clear();
        Ok(Documents::from_vectors(ids, vectors?)?)
    }
}

#[cfg(feature = "encode")]
use with_encoder::encoded;

#[cfg(not(feature = "encode"))]
fn encoded(_: &[TextDocument], _: &Vault, _: &EncoderArguments) -> Result<Documents> {
    Err(no_encoders())
}

/// How to get what this build lacks.
#[cfg(not(feature = "encode"))]
pub fn no_encoders() -> anyhow::Error {
    anyhow::anyhow!(
        "this build has no text encoders: build it with `cargo build --release -p shard-cli --features encode`, \
         or encode the texts elsewhere and give vectors"
    )
}
