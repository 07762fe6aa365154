//! How messages reach a server.

use std::sync::Arc;

use shard_rlwe::Objective;

use crate::names::CollectionName;

/// Carries one message to a server and brings its answer back. The embedded server and a
/// network connection look the same from here. Many threads may exchange messages at once.
pub trait Transport: Send + Sync {
    /// Why there was no answer.
    type Error;

    /// One exchange. A refusal of the request is an answer; an error means that there is none.
    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Self::Error>;

    /// The collection that messages reach.
    fn collection(&self) -> CollectionName {
        CollectionName::default()
    }

    /// What plans are to be good at on the way to this server, unless the caller chooses: the
    /// least computing where messages do not travel.
    fn objective(&self) -> Objective {
        Objective::Compute
    }
}

/// What points to a server reaches it.
macro_rules! through {
    ($pointer:ty) => {
        impl<T: Transport + ?Sized> Transport for $pointer {
            type Error = T::Error;

            fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Self::Error> {
                (**self).exchange(message)
            }

            fn collection(&self) -> CollectionName {
                (**self).collection()
            }

            fn objective(&self) -> Objective {
                (**self).objective()
            }
        }
    };
}

through!(&T);
through!(Arc<T>);
