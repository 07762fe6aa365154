//! What lies in a model's folder.

pub(crate) mod files;
pub(crate) mod settings;
pub(crate) mod tokens;
pub(crate) mod weights;

pub(crate) use files::{File, Folder};
pub(crate) use settings::{Pooling, Settings};
pub(crate) use tokens::Tokens;
pub(crate) use weights::Weights;
