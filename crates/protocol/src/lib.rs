//! What both sides agree on: messages, codec, limits and the list of leaks
