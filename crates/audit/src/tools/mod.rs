//! What the attacks have in common: matrices, nearest neighbours, and how certain a figure is.

pub mod evidence;
pub mod matrix;
pub mod mills;
pub mod neighbours;
pub mod statistics;
pub mod uniformity;
pub mod whole_cells;
