//! Tensors of a safetensors file, as `f32`.

use std::path::PathBuf;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::File;
use crate::EncodeError;

/// The tensors of a file. Cut off or overlapping tensors are refused when it is opened.
pub(crate) struct Weights<'a> {
    path: PathBuf,
    tensors: SafeTensors<'a>,
    /// What stands before the names: `bert.` where a model was saved with a head.
    prefix: String,
}

impl<'a> Weights<'a> {
    pub(crate) fn open(file: &'a File) -> Result<Self, EncodeError> {
        let tensors =
            SafeTensors::deserialize(&file.bytes).map_err(|error| EncodeError::Damaged {
                file: file.path.clone(),
                reason: format!("{error}; it is cut off or not in the safetensors format"),
            })?;
        Ok(Self { path: file.path.clone(), tensors, prefix: String::new() })
    }

    /// Takes names with the first of these prefixes under which `name` exists.
    pub(crate) fn under(mut self, prefixes: &[&str], name: &str) -> Self {
        let found = prefixes.iter().find(|prefix| self.has(&format!("{prefix}{name}")));
        self.prefix = found.copied().unwrap_or_default().to_owned();
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.shape(name).is_some()
    }

    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let view = self.tensors.tensor(&format!("{}{name}", self.prefix)).ok()?;
        Some(view.shape().to_vec())
    }

    /// The values of a tensor of this shape.
    pub(crate) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EncodeError> {
        let name = format!("{}{name}", self.prefix);
        let wrong = |reason: String| EncodeError::Tensor {
            file: self.path.clone(),
            tensor: name.clone(),
            reason,
        };
        let view = self.tensors.tensor(&name).map_err(|_| wrong("is missing".into()))?;
        if view.shape() != shape {
            return Err(wrong(format!("has the shape {:?}, not {shape:?}", view.shape())));
        }
        let bytes = view.data();
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => groups(bytes).map(f32::from_le_bytes).collect(),
            Dtype::F64 => groups(bytes).map(|bytes| f64::from_le_bytes(bytes) as f32).collect(),
            Dtype::F16 => groups(bytes).map(|bytes| f16::from_le_bytes(bytes).to_f32()).collect(),
            Dtype::BF16 => groups(bytes).map(|bytes| bf16::from_le_bytes(bytes).to_f32()).collect(),
            Dtype::I8 => bytes.iter().map(|&byte| f32::from(byte as i8)).collect(),
            other => {
                return Err(wrong(format!("has values of the kind {other:?}, which is not read")));
            }
        };
        if values.iter().any(|value| !value.is_finite()) {
            return Err(wrong("has values that are not finite".into()));
        }
        Ok(values)
    }

    /// The whole numbers of a tensor of one dimension.
    pub(crate) fn integers(&self, name: &str) -> Result<Vec<i64>, EncodeError> {
        let wrong = |reason: &str| EncodeError::Tensor {
            file: self.path.clone(),
            tensor: name.to_owned(),
            reason: reason.to_owned(),
        };
        let view = self.tensors.tensor(name).map_err(|_| wrong("is missing"))?;
        match view.dtype() {
            Dtype::I64 => Ok(groups(view.data()).map(i64::from_le_bytes).collect()),
            Dtype::I32 => {
                Ok(groups(view.data()).map(|bytes| i32::from_le_bytes(bytes).into()).collect())
            }
            _ => Err(wrong("does not hold whole numbers")),
        }
    }
}

/// The bytes of one value after the other.
fn groups<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
