//! Scores encrypted queries against stored rows
