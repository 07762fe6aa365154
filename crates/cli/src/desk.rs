//! A vault that answers questions in words for as long as the program runs: what `shard mcp` and
//! `shard console` put a protocol in front of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use shard::encode::Encoder;
use shard::remote::ServerAddress;
use shard::{
    Answer, Exchange, FetchWay, Filter, Passage, Retriever, SearchOptions, UNWATCHED,
    encode_queries,
};

use crate::args::VaultArguments;
use crate::remote::{self, ConnectionArguments};
use crate::texts::EncoderArguments;
use crate::unlock;

/// A vault, its server and its encoder.
#[derive(Args)]
pub struct DeskArguments {
    #[command(flatten)]
    pub vault: VaultArguments,
    /// Server and collection, https://HOST:PORT/NAME [default: a server in this process]
    #[arg(long, value_name = "URL", env = "SHARD_SERVER")]
    pub server: Option<ServerAddress>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub encoder: EncoderArguments,
}

/// A vault that is open for questions.
pub struct Desk {
    retriever: Retriever,
    encoder: Encoder,
    /// What crossed to the server since the last question began.
    crossed: Arc<Mutex<Vec<Exchange>>>,
    /// One question at a time, so that what crossed is told of the right one.
    turn: Mutex<()>,
}

/// What is asked.
pub struct Question {
    /// In words.
    pub query: String,
    /// Documents to return.
    pub top: usize,
    /// Which documents may be returned.
    pub filter: Option<Filter>,
    /// How passages are fetched.
    pub way: FetchWay,
}

/// Documents that a question may ask for.
pub const MOST: usize = 100;

/// Characters of a question.
const LONGEST: usize = 8192;

impl Question {
    /// A question of words, if they are not too many.
    pub fn checked(
        query: String,
        top: usize,
        filter: Option<Filter>,
        way: FetchWay,
    ) -> Result<Self> {
        if query.trim().is_empty() || query.chars().count() > LONGEST {
            bail!("a question has 1 to {LONGEST} characters");
        }
        if !(1..=MOST).contains(&top) {
            bail!("1 to {MOST} documents can be asked for");
        }
        Ok(Self { query, top, filter, way })
    }
}

/// What came of a question.
pub struct Answered {
    /// The best documents first.
    pub passages: Vec<Passage>,
    /// A sentence for each field of the filter that no document can be found by.
    pub notes: Vec<String>,
    /// The answer without passages; `None` from an empty vault.
    pub answer: Option<Answer>,
    /// When the question was asked.
    pub asked: Instant,
    /// Time that encoding took.
    pub encoding: Duration,
    /// Time that fetching passages took.
    pub fetching: Duration,
    /// Messages of the search, then those of the passages.
    pub crossed: [Vec<Exchange>; 2],
}

impl Desk {
    /// Opens the vault and its encoder, and makes ready to search.
    pub fn open(arguments: &DeskArguments) -> Result<Self> {
        let vault = unlock::open(&arguments.vault)?;
        let encoder = arguments.encoder.open(&vault)?;
        let retriever = match &arguments.server {
            Some(server) => {
                Retriever::remote(vault, remote::connect(server, &arguments.connection)?)
            }
            None => Retriever::embedded(vault),
        };
        let crossed: Arc<Mutex<Vec<Exchange>>> = Arc::default();
        let heard = crossed.clone();
        let retriever = retriever.listening(Arc::new(move |exchange| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
        }));
        retriever.opened(UNWATCHED)?.context("the vault is empty: ingest documents first")?;
        Ok(Self { retriever, encoder, crossed, turn: Mutex::default() })
    }

    /// The vault and its server.
    pub fn retriever(&self) -> &Retriever {
        &self.retriever
    }

    /// What turns questions into vectors.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Searches and fetches passages.
    pub fn ask(&self, question: &Question) -> Result<Answered> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.heard();
        let asked = Instant::now();
        let vectors = encode_queries(&self.encoder, &[&question.query], UNWATCHED)?;
        let encoding = asked.elapsed();
        let options = SearchOptions {
            top: question.top,
            filter: question.filter.clone(),
            ..SearchOptions::default()
        };
        let answer = self.retriever.search(vectors.row(0), &options, UNWATCHED)?;
        let of_search = self.heard();
        let fetch = Instant::now();
        let hits = answer.as_ref().map_or(&[][..], |answer| &answer.hits);
        let passages = self.retriever.passages(hits, question.way, UNWATCHED)?;
        let fetching = fetch.elapsed();
        let crossed = [of_search, self.heard()];
        let notes = match (self.retriever.collection()?, &question.filter) {
            (Some(collection), Some(filter)) => collection.unknown_fields(filter)?,
            _ => Vec::new(),
        };
        Ok(Answered { passages, notes, answer, asked, encoding, fetching, crossed })
    }

    fn heard(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.crossed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
