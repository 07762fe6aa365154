"""What can go wrong. Messages are those of the command `shard`."""


class ShardError(Exception):
    """Something could not be done; nothing was changed unless the message says so."""


class InputError(ShardError, ValueError):
    """Documents, queries, ids or settings that cannot be used."""


class VaultError(ShardError):
    """A vault that is missing, damaged, in use, or does not open with what was given."""


class ServerError(ShardError, ConnectionError):
    """A server that cannot be reached, refuses, or holds another state than the vault."""


class FalseAnswerError(ShardError):
    """An alarm: the server answered falsely. Tell the owner of the collection."""


class EncoderError(ShardError):
    """A model or an endpoint that does not give vectors, or not those of the vault's documents."""
