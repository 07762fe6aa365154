//! The server's rows
