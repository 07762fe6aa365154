//! Where an encoder is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

/// Where an encoder is: a folder with a model, or an endpoint.
///
/// Written as a path, or as the address of the endpoint with the name of the model behind a `#`:
/// `models/all-MiniLM-L6-v2`, `http://localhost:11434/v1#nomic-embed-text`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// A folder with a model.
    Folder(PathBuf),
    /// An endpoint that answers `POST {url}/embeddings` as OpenAI's does.
    Endpoint {
        /// The address up to and with `/v1`; no name, password, query or fragment.
        url: Url,
        /// The name of the model there.
        model: String,
    },
}

/// A text that is not a location.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LocationError {
    /// Nothing at all.
    #[error("an encoder is a folder, or an address with a model: https://host/v1#model")]
    Empty,
    /// An address that is none.
    #[error("{text} is not an address: {reason}")]
    Address {
        /// What was given, without what may be a password.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An address without a model.
    #[error("{url} names no model: add it behind a #, as in https://host/v1#model")]
    NoModel {
        /// The address.
        url: Url,
    },
    /// A name or password in the address, where it would be stored and printed.
    #[error(
        "the address of an endpoint has no name and no password: the key comes from SHARD_EMBEDDINGS_KEY"
    )]
    Credentials,
    /// A query in the address.
    #[error("the address of an endpoint has no query: {url}")]
    Query {
        /// The address without its query.
        url: Url,
    },
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if text.is_empty() {
            return Err(LocationError::Empty);
        }
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        // What stands before an @ may be a password and is not repeated.
        let shown = text.rsplit_once('@').map_or(text, |(_, behind)| behind);
        let mut url = Url::parse(text).map_err(|error| LocationError::Address {
            text: shown.to_owned(),
            reason: error.to_string(),
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(LocationError::Credentials);
        }
        // As written: `Url` would escape characters of the name.
        let model = text.split_once('#').map_or("", |(_, model)| model).trim().to_owned();
        url.set_fragment(None);
        if url.query().is_some() {
            url.set_query(None);
            return Err(LocationError::Query { url });
        }
        if model.is_empty() {
            return Err(LocationError::NoModel { url });
        }
        Ok(Self::Endpoint { url, model })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Endpoint { url, model } => write!(f, "{url}#{model}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_reads_as_it_is_written() {
        for text in [
            "models/all-MiniLM-L6-v2",
            "/a folder/with spaces",
            "http://localhost:11434/v1#nomic-embed-text:latest",
            "https://host/v1#BAAI/bge small",
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!(location.to_string(), text);
            assert_eq!(location.to_string().parse(), Ok(location));
        }
        assert_eq!("https".parse(), Ok(Location::Folder("https".into())));
    }

    #[test]
    fn an_address_needs_a_model_and_has_no_password_and_no_query() {
        let parse = |text: &str| text.parse::<Location>().unwrap_err();
        assert_eq!(parse(""), LocationError::Empty);
        assert!(matches!(parse("https://host/v1"), LocationError::NoModel { .. }));
        assert!(matches!(parse("https://host/v1#"), LocationError::NoModel { .. }));
        assert_eq!(parse("https://me:secret@host/v1#m"), LocationError::Credentials);
        let error = parse("https://host/v1?key=secret#m").to_string();
        assert!(!error.contains("secret"), "{error}");
        let error = parse("https://me:secret@host:port/v1#m").to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
