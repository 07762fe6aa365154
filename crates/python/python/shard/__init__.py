"""Private dense retrieval: keep an index of embedding vectors on a server you do not trust.

The server holds ciphertexts of the vectors, scores all of them for encrypted queries, and is caught
when it lies; the ranking is that of raw search. A vault, a directory of yours, has the keys.

    import shard

    vault = shard.Vault.create("notes", passphrase="correct horse", encoder="models/all-MiniLM-L6-v2")
    vault.add(["The heart pumps blood.", "Paris is in France."])
    for hit in vault.search("circulation", k=1):
        print(f"{hit.score:.3f} {hit.text}")

Without a server the search runs through one in this process; `server=`, `token=` and `pin=` name one
on a network, which `vault.publish()` brings up to date.
"""

from ._errors import (
    EncoderError,
    FalseAnswerError,
    InputError,
    ServerError,
    ShardError,
    VaultError,
)
from ._shard import __version__
from .encoder import Encoder
from .results import Added, Audit, Hit, Record
from .vault import Vault, plan

__all__ = [
    "Added",
    "Audit",
    "Encoder",
    "EncoderError",
    "FalseAnswerError",
    "Hit",
    "InputError",
    "Record",
    "ServerError",
    "ShardError",
    "Vault",
    "VaultError",
    "__version__",
    "plan",
]
