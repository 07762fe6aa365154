//! Encoders of texts.

use numpy::PyArray2;
use pyo3::prelude::*;
use shard::encode::{Encoder as Model, Location, Purpose};
use shard::{ClientError, Error, Progress};

use crate::arrays::array;
use crate::errors::{encoder, input};
use crate::signals::followed;

/// A model in a folder, or an endpoint.
#[pyclass(frozen, module = "shard._shard")]
pub struct Encoder {
    model: Model,
    location: Location,
}

#[pymethods]
impl Encoder {
    #[new]
    fn new(py: Python<'_>, location: &str) -> PyResult<Self> {
        let location: Location = location.parse().map_err(|error| input(format!("{error}")))?;
        let model = py.detach(|| Model::open(&location)).map_err(|error| encoder(&error))?;
        Ok(Self { model, location })
    }

    #[getter]
    fn identity(&self) -> &str {
        self.model.identity()
    }

    #[getter]
    fn dimension(&self) -> usize {
        self.model.dimension()
    }

    fn encode<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        query: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let purpose = if query { Purpose::Query } else { Purpose::Passage };
        let values = followed(py, progress, |watch| {
            let told = |done: usize, total: usize| {
                watch(Progress { done: done as u64, total: total as u64 })
            };
            self.model.encode(&texts, purpose, &told).map_err(|error| match error {
                shard::encode::EncodeError::Ended => Error::from(ClientError::Cancelled),
                error => Error::from(error),
            })
        })?;
        array(py, self.model.dimension(), values)
    }
}

impl Encoder {
    /// A model that was opened where a vault said.
    pub fn of(model: Model, location: &str) -> PyResult<Self> {
        let location: Location = location.parse().map_err(|error| input(format!("{error}")))?;
        Ok(Self { model, location })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }
}
