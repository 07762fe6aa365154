"""From texts to vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from . import _shard
from ._errors import InputError


def as_list(name: str, values: Iterable[str]) -> list[str]:
    """Several texts or ids. One by itself is refused: it would be taken letter by letter."""
    if isinstance(values, str | bytes):
        raise InputError(f"{name} is a list: put brackets around a single one")
    return [str(value) for value in values]


class Encoder:
    """A model in a folder, or an OpenAI-compatible endpoint named as `https://host/v1#model`.

    A folder has `config.json`, `tokenizer.json` and `model.safetensors` of a BERT-like model (MiniLM,
    e5, bge, gte) or of static embeddings (model2vec, WordLlama). The key of an endpoint is taken from
    the environment: SHARD_EMBEDDINGS_KEY or OPENAI_API_KEY.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._core = _shard.Encoder(os.fspath(location))

    @classmethod
    def _of(cls, core: _shard.Encoder) -> Encoder:
        encoder = cls.__new__(cls)
        encoder._core = core
        return encoder

    @property
    def identity(self) -> str:
        """What vectors depend on: a hash of the model, or the name of the endpoint's model."""
        return self._core.identity

    @property
    def dimension(self) -> int:
        """Coordinates of a vector."""
        return self._core.dimension

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> np.ndarray:
        """Vectors of texts, one per row; of queries, where the model tells them from passages."""
        return self._core.encode(as_list("texts", texts), query, progress)

    def __repr__(self) -> str:
        return f"Encoder({self.identity}, dimension={self.dimension})"
