//! PCA, split, cells, transforms, routing and exact scoring: pure, no I/O, no crypto crate
