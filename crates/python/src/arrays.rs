//! Arrays of NumPy as vectors, and back.

use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use shard::VectorSet;

use crate::errors::{input, raised};

/// The rows of an array. They are copied once: the interpreter's lock is released while they are used,
/// and other threads may change the array meanwhile.
pub fn rows(array: &PyReadonlyArray2<'_, f32>) -> PyResult<VectorSet> {
    let width = array.shape()[1];
    let values = array.as_slice().map_err(|error| input(error.to_string()))?;
    VectorSet::new(width, values.to_vec()).map_err(|error| raised(error.into()))
}

/// A single vector.
pub fn vector(array: &PyReadonlyArray1<'_, f32>) -> PyResult<Vec<f32>> {
    Ok(array.as_slice().map_err(|error| input(error.to_string()))?.to_vec())
}

/// Values as an array of this many columns, which takes them over.
pub fn array(py: Python<'_>, width: usize, values: Vec<f32>) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let rows = values.len() / width.max(1);
    numpy::PyArray1::from_vec(py, values).reshape([rows, width])
}
