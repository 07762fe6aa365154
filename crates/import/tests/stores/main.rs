//! Other stores as they are: directories that Chroma wrote, and a server that answers as Qdrant documents it.

mod chroma;
mod qdrant;
