//! The ring, sampling, CKKS in coefficient layout, noise model and parameter sets
