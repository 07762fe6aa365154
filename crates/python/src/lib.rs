//! What the Python package `shard` calls: vaults, search, publishing and judging, with plain values
//! in and out. `python/shard` puts names, defaults and documentation in front of it.
//!
//! Work runs without the interpreter's lock, so that other Python threads go on; a long one looks for
//! Ctrl-C between its steps ([`signals`]). Errors carry the words of the libraries ([`errors`]).

mod arrays;
mod core;
mod encoder;
mod errors;
mod settings;
mod signals;
mod unlock;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _shard(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<core::Core>()?;
    module.add_class::<encoder::Encoder>()?;
    module.add_function(wrap_pyfunction!(core::plan, module)?)?;
    Ok(())
}
