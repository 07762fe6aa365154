//! A vault that stays open, with plain values in and out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use numpy::{PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};
use shard::audit::{AuditOptions, json as report_json, page};
use shard::evaluation::{EvaluateOptions, Qrels};
use shard::planning::{Prices, Wanted};
use shard::remote::{
    FingerprintError, PublishOptions, Remote, RemoteError, RemoteOptions, SecretToken,
};
use shard::{
    Answer, ChunkOptions, ClientError, Documents, Error, FetchWay, Filter, FitOptions, Ingested,
    MissingIds, Others, Progress, Record, Retriever, SearchOptions, TextDocument, TextOptions,
    Vault, VaultAccess,
};
use zeroize::Zeroizing;

use crate::arrays::{array, rows, vector};
use crate::encoder::Encoder;
use crate::errors::{input, raised, warned, words};
use crate::settings;
use crate::signals::followed;
use crate::unlock::unlock;

/// How many documents were added, replaced, left as they were and removed.
type Counts = (usize, usize, usize, usize);

/// Ids and scores of a query's documents.
type Found = Vec<(String, f64)>;

/// Records of documents, in the order they were asked for.
type Stored<'py> = Vec<Option<Bound<'py, PyBytes>>>;

/// Where a server is: address, token, fingerprint, file of authorities.
type ServerOptions = (String, Option<String>, Option<String>, Option<String>);

/// A vault and the server that it is searched through.
#[pyclass(frozen, module = "shard._shard")]
pub struct Core(Retriever);

#[pymethods]
impl Core {
    #[staticmethod]
    fn create(
        py: Python<'_>,
        directory: &str,
        passphrase: Option<String>,
        key_file: Option<&str>,
        protection: &str,
        settings: &str,
        server: Option<ServerOptions>,
    ) -> PyResult<Self> {
        let settings = settings::chosen(protection, settings)?;
        let (unlock, server) = (unlock(passphrase, key_file)?, connected(server)?);
        py.detach(|| Self::over(Vault::create(directory, &unlock, &settings)?, server))
            .map_err(raised)
    }

    #[staticmethod]
    fn open(
        py: Python<'_>,
        directory: &str,
        passphrase: Option<String>,
        key_file: Option<&str>,
        server: Option<ServerOptions>,
    ) -> PyResult<Self> {
        let (unlock, server) = (unlock(passphrase, key_file)?, connected(server)?);
        py.detach(|| Self::over(Vault::open(directory, &unlock)?, server)).map_err(raised)
    }

    /// Adds vectors, with the records of those documents that have one: a JSON object each.
    fn add_vectors(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        vectors: PyReadonlyArray2<'_, f32>,
        records: Vec<Option<String>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Counts> {
        let told = ids.iter().zip(records);
        let told = told.filter_map(|(id, record)| Some((id.clone(), record?.into_bytes())));
        let records: Vec<Record> = told.map(|(id, bytes)| Record { id, bytes }).collect();
        let documents = Documents::from_vectors(ids, rows(&vectors)?);
        let documents = documents.map_err(|error| raised(error.into()))?;
        let (done, uneven) = followed(py, progress, |watch| {
            let options = FitOptions { watch, ..FitOptions::default() };
            let done = self
                .0
                .change(|vault| vault.ingest_with(&documents, records, Others::Keep, options))?;
            let collection = self.0.collection().ok().flatten();
            let uneven =
                collection.and_then(|held| self.0.vault().uneven_lengths(&documents, &held));
            Ok((done, uneven))
        })?;
        if let Some(uneven) = uneven {
            warned(py, &uneven.to_string())?;
        }
        Ok(counts(done))
    }

    /// Encodes texts and adds them: of each its id, title, text, and a JSON object of its other fields.
    fn add_texts(
        &self,
        py: Python<'_>,
        texts: Vec<(String, Option<String>, String, String)>,
        encoder: &Encoder,
        chunk: Option<(usize, usize)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Counts> {
        let document = |(id, title, text, fields): (String, _, _, String)| {
            let unusable = |error| input(format!("document {id:?}: {error}"));
            let fields = serde_json::from_str(&fields).map_err(unusable)?;
            Ok(TextDocument { id, title, text, fields })
        };
        let texts = texts.into_iter().map(document).collect::<PyResult<Vec<TextDocument>>>()?;
        let chunks = chunk.map(|(size, overlap)| ChunkOptions { size, overlap });
        followed(py, progress, |watch| {
            let location = Some(encoder.location());
            let options = TextOptions {
                chunks,
                location,
                encoding: watch,
                writing: watch,
                ..TextOptions::default()
            };
            self.0.change(|vault| vault.add_texts(&texts, encoder.model(), &options))
        })
        .map(counts)
    }

    fn delete(&self, py: Python<'_>, ids: Vec<String>, missing_ok: bool) -> PyResult<usize> {
        let missing = if missing_ok { MissingIds::Ignore } else { MissingIds::Refuse };
        let done = followed(py, None, |_| self.0.change(|vault| vault.delete(&ids, missing)))?;
        Ok(done.deleted)
    }

    /// Records from the server, or of the vault itself; `None` where a document is not there or has none.
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<String>,
        direct: bool,
        local: bool,
    ) -> PyResult<Stored<'py>> {
        let way = if direct { FetchWay::Direct } else { FetchWay::Private };
        let stored = followed(py, None, |watch| {
            let known = self.known(&ids)?;
            let names: Vec<&str> =
                ids.iter().map(String::as_str).filter(|id| known.contains(id)).collect();
            if names.is_empty() {
                return Ok(vec![None; ids.len()]);
            }
            let records = if local {
                self.0.vault().records_of(&names)?
            } else {
                self.0.fetch(&names, way, watch)?.records
            };
            let mut records: HashMap<&str, Option<Vec<u8>>> =
                names.into_iter().zip(records).collect();
            Ok(ids
                .iter()
                .map(|id| records.get_mut(id.as_str()).and_then(|one| one.clone()))
                .collect())
        })?;
        Ok(stored.into_iter().map(|one| one.map(|bytes| PyBytes::new(py, &bytes))).collect())
    }

    /// Whether documents have records that can be fetched.
    fn has_records(&self, py: Python<'_>) -> PyResult<bool> {
        let collection = py.detach(|| self.0.collection()).map_err(raised)?;
        Ok(collection.is_some_and(|held| held.blind().is_some_and(|held| held.records().is_some())))
    }

    /// The ids of all documents, or of those that a filter holds of.
    fn ids(&self, py: Python<'_>, filter: Option<&str>) -> PyResult<Vec<String>> {
        let filter = self.filter(py, filter)?;
        py.detach(|| {
            let Some(collection) = self.0.collection()? else { return Ok(Vec::new()) };
            match &filter {
                Some(filter) => {
                    Ok(collection.matching_ids(filter)?.into_iter().map(str::to_owned).collect())
                }
                None => Ok(collection.ids().map(str::to_owned).collect()),
            }
        })
        .map_err(raised)
    }

    /// Which of some ids are there.
    fn holds(&self, py: Python<'_>, ids: Vec<String>) -> PyResult<Vec<bool>> {
        let known = py.detach(|| self.known(&ids)).map_err(raised)?;
        Ok(ids.iter().map(|id| known.contains(id.as_str())).collect())
    }

    fn vectors<'py>(&self, py: Python<'py>) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f32>>)> {
        let documents = py.detach(|| self.0.vault().documents()).map_err(raised)?;
        let (ids, vectors) = documents.into_parts();
        let width = vectors.width();
        Ok((ids, array(py, width, vectors.into_values())?))
    }

    /// Documents and their width; no width before the first documents came.
    fn shape(&self, py: Python<'_>) -> PyResult<(usize, Option<usize>)> {
        let collection = py.detach(|| self.0.collection()).map_err(raised)?;
        Ok(collection.map_or((0, None), |held| (held.documents(), Some(held.dimension()))))
    }

    fn search(
        &self,
        py: Python<'_>,
        query: PyReadonlyArray1<'_, f32>,
        top: usize,
        filter: Option<&str>,
        local: bool,
    ) -> PyResult<Found> {
        let (query, options) = (vector(&query)?, self.options(py, top, filter)?);
        followed(py, None, |watch| {
            if local {
                let filter = options.filter.as_ref();
                return Ok(found(self.0.vault().local()?.search(&query, top, filter)?));
            }
            let answer = self.0.search(&query, &options, watch)?;
            Ok(answer.map_or_else(Found::new, |answer| found(answer.hits)))
        })
    }

    fn search_many(
        &self,
        py: Python<'_>,
        queries: PyReadonlyArray2<'_, f32>,
        top: usize,
        filter: Option<&str>,
        local: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Found>> {
        let (queries, options) = (rows(&queries)?, self.options(py, top, filter)?);
        followed(py, progress, |watch| {
            if local {
                let (searcher, filter) = (self.0.vault().local()?, options.filter.as_ref());
                let total = queries.rows() as u64;
                let search = |row| {
                    if watch(Progress { done: row as u64, total }).is_break() {
                        return Err(ClientError::Cancelled.into());
                    }
                    Ok(found(searcher.search(queries.row(row), top, filter)?))
                };
                return (0..queries.rows()).map(search).collect();
            }
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let answers = self.0.search_many(&queries, &options, cores, watch)?;
            let answers =
                answers.map(|all| all.into_iter().map(|one: Answer| found(one.hits)).collect());
            Ok(answers.unwrap_or_else(|| vec![Found::new(); queries.rows()]))
        })
    }

    /// Refuses an encoder other than that of the vault's texts.
    fn check_encoder(&self, py: Python<'_>, encoder: &Encoder) -> PyResult<()> {
        py.detach(|| self.0.vault().check_encoder(encoder.model())).map_err(raised)
    }

    /// The encoder of the vault's texts, where it was found last.
    fn open_encoder(&self, py: Python<'_>) -> PyResult<Encoder> {
        let (model, location) = py
            .detach(|| {
                let vault = self.0.vault();
                let model = vault.open_encoder(None)?;
                Ok((model, vault.encoder()?.map(|note| note.location).unwrap_or_default()))
            })
            .map_err(raised)?;
        Encoder::of(model, &location)
    }

    fn publish(
        &self,
        py: Python<'_>,
        replace: bool,
        fresh_checks: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let server = self.server()?;
        let options = PublishOptions { replace, fresh_checks };
        let done = followed(py, progress, |watch| {
            self.0.change(|vault| vault.publish(server, options, watch))
        })?;
        let left = self.leave_vectors(py, server)?;
        Ok(json!({
            "server": server.address().to_string(), "uploaded": done.uploaded, "deleted": done.deleted,
            "unchanged": done.unchanged, "bytes": done.bytes, "state_bytes": done.state_bytes,
            "vectors_left": left, "epoch": done.epoch.0, "activated": done.activated,
        })
        .to_string())
    }

    fn pull(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let server = self.server()?;
        let done =
            followed(py, progress, |watch| self.0.change(|vault| vault.pull(server, watch)))?;
        self.leave_vectors(py, server)?;
        Ok(json!({
            "server": server.address().to_string(), "from": done.from, "to": done.to,
            "bytes": done.bytes, "put_again": done.put_again, "deleted_again": done.deleted_again,
            "contested": done.contested, "epoch_dropped": done.epoch_dropped,
        })
        .to_string())
    }

    fn rekey(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        followed(py, progress, |watch| self.0.change(|vault| vault.rekey(watch))).map(drop)
    }

    fn export(
        &self,
        py: Python<'_>,
        directory: &str,
        passphrase: Option<String>,
        key_file: Option<&str>,
    ) -> PyResult<()> {
        let unlock = unlock(passphrase, key_file)?;
        py.detach(|| self.0.vault().export(directory, &unlock)).map(drop).map_err(raised)
    }

    fn evaluate(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        queries: PyReadonlyArray2<'_, f32>,
        judgements: &str,
    ) -> PyResult<String> {
        let queries = Documents::from_vectors(ids, rows(&queries)?);
        let queries = queries.map_err(|error| raised(error.into()))?;
        let qrels = Qrels::parse(judgements).map_err(|error| input(error.to_string()))?;
        let outcome = followed(py, None, |watch| {
            let options = EvaluateOptions { watch, ..EvaluateOptions::default() };
            self.0.vault().evaluate(&queries, &qrels, &options)
        })?;
        serde_json::to_string(&outcome).map_err(|error| input(error.to_string()))
    }

    /// Plans for the vault's collection.
    fn plan(
        &self,
        py: Python<'_>,
        megabits: Option<f64>,
        queries: Option<PyReadonlyArray2<'_, f32>>,
    ) -> PyResult<String> {
        let queries = queries.as_ref().map(rows).transpose()?;
        let planned = followed(py, None, |_| self.0.vault().plan(megabits, queries.as_ref()))?;
        serde_json::to_string(&planned).map_err(|error| input(error.to_string()))
    }

    fn audit(
        &self,
        py: Python<'_>,
        queries: Option<PyReadonlyArray2<'_, f32>>,
        texts: Option<Vec<(String, String)>>,
        sample: usize,
    ) -> PyResult<(String, String)> {
        let queries = queries.as_ref().map(rows).transpose()?;
        let document = |(id, text)| TextDocument { id, text, ..TextDocument::default() };
        let texts: Option<Vec<TextDocument>> =
            texts.map(|texts| texts.into_iter().map(document).collect());
        followed(py, None, |watch| {
            let options = AuditOptions {
                queries: queries.as_ref(),
                texts: texts.as_deref(),
                sample,
                watch,
                ..AuditOptions::default()
            };
            let report = self.0.vault().audit(&options)?;
            Ok((report_json::report(&report).to_string(), page::html(&report)))
        })
    }

    /// What it is, in one line.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.description()).map_err(raised)
    }
}

impl Core {
    fn description(&self) -> Result<String, Error> {
        let collection = self.0.collection()?;
        let vault = self.0.vault();
        let held = match &collection {
            None => "empty".to_owned(),
            Some(held) => {
                format!("{} documents of {} dimensions", held.documents(), held.dimension())
            }
        };
        let kind = match vault.access() {
            VaultAccess::Owner => vault.settings()?.protection.to_string(),
            VaultAccess::Query => "for readers".to_owned(),
        };
        let server = match self.0.server() {
            Some(server) => server.address().to_string(),
            None => "in this process".to_owned(),
        };
        Ok(format!("Vault({}, {kind}, {held}, server {server})", vault.directory().display()))
    }

    fn over(mut vault: Vault, server: Option<Remote>) -> Result<Self, Error> {
        let Some(server) = server.map(Arc::new) else {
            return Ok(Self(Retriever::embedded(vault)));
        };
        if vault.access() == VaultAccess::Owner && !vault.settings()?.keep_vectors {
            vault.fetch_vectors_from(server.clone());
        }
        Ok(Self(Retriever::remote(vault, server)))
    }

    /// Lets a vault that does not keep its vectors leave them with the server. What was done before is
    /// done, so where that does not work it is a warning. Returns how many bytes were left.
    fn leave_vectors(&self, py: Python<'_>, server: &Remote) -> PyResult<u64> {
        let left = followed(py, None, |watch| {
            Ok(self.0.change(|vault| vault.leave_vectors(server, watch)))
        })?;
        left.or_else(|error| {
            warned(py, &format!("the vectors are still in the vault: {}", words(&error)))?;
            Ok(0)
        })
    }

    /// A filter, with a warning for each of its fields that no document can be found by.
    fn filter(&self, py: Python<'_>, filter: Option<&str>) -> PyResult<Option<Filter>> {
        let Some(text) = filter else { return Ok(None) };
        let json: Value = serde_json::from_str(text).map_err(|error| input(error.to_string()))?;
        let filter = Filter::from_json(&json).map_err(|error| input(error.to_string()))?;
        let unknown = py.detach(|| match self.0.collection()? {
            Some(collection) => collection.unknown_fields(&filter),
            None => Ok(Vec::new()),
        });
        for field in unknown.map_err(raised)? {
            warned(py, &field)?;
        }
        Ok(Some(filter))
    }

    fn options(&self, py: Python<'_>, top: usize, filter: Option<&str>) -> PyResult<SearchOptions> {
        if top == 0 {
            return Err(input("k must be at least 1"));
        }
        let filter = self.filter(py, filter)?;
        Ok(SearchOptions { top, filter, ..SearchOptions::default() })
    }

    fn server(&self) -> PyResult<&Remote> {
        let named = self.0.server().map(std::ops::Deref::deref);
        named.ok_or_else(|| input("this vault has no server: open it with server="))
    }

    /// Those of some ids that are there.
    fn known<'i>(&self, ids: &'i [String]) -> Result<HashSet<&'i str>, Error> {
        let Some(collection) = self.0.collection()? else { return Ok(HashSet::new()) };
        let asked: HashSet<&str> = ids.iter().map(String::as_str).collect();
        Ok(collection.ids().filter_map(|id| asked.get(id).copied()).collect())
    }
}

/// Plans for a collection of a size, with prices as a JSON object or, without any, with placeholders.
#[pyfunction]
pub fn plan(
    rows: usize,
    dimension: usize,
    megabits: Option<f64>,
    cells: Option<(usize, usize)>,
    worker_gigabytes: f64,
    searches: f64,
    prices: Option<&str>,
) -> PyResult<String> {
    if rows == 0 || dimension == 0 {
        return Err(input("rows and dimension are more than 0"));
    }
    let prices = match prices {
        Some(given) => {
            serde_json::from_str(given).map_err(|error| input(format!("the prices: {error}")))?
        }
        None => Prices::placeholders(),
    };
    let worker_memory = worker_gigabytes * 1e9;
    let wanted = Wanted { rows, dimension, cells, worker_memory, searches, megabits };
    let planned = wanted.plan(prices).map_err(raised)?;
    serde_json::to_string(&planned).map_err(|error| input(error.to_string()))
}

fn connected(server: Option<ServerOptions>) -> PyResult<Option<Remote>> {
    let Some((address, token, pin, ca_file)) = server else { return Ok(None) };
    let address = address.parse().map_err(|error: RemoteError| raised(error.into()))?;
    let token = token.map(Zeroizing::new).map(|token| SecretToken::new(&token)).transpose();
    let pin = pin.map(|pin| pin.parse()).transpose();
    let options = RemoteOptions {
        token: token.map_err(|error| raised(error.into()))?,
        pin: pin.map_err(|error: FingerprintError| input(error.to_string()))?,
        ca_file: ca_file.map(Into::into),
        ..RemoteOptions::new(address)
    };
    Remote::connect(options).map(Some).map_err(|error| raised(error.into()))
}

fn found(hits: Vec<shard::Hit>) -> Found {
    hits.into_iter().map(|hit| (hit.id, hit.score)).collect()
}

fn counts(done: Ingested) -> Counts {
    (done.added, done.replaced, done.unchanged, done.deleted)
}
