//! Undoing keys: with known pairs, with an auxiliary corpus, through the structure of the keys.
