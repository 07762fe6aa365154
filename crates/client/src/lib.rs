//! The data owner's side: vault, keys, protect, search
