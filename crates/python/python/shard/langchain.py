"""A LangChain vector store over a vault (`pip install './crates/python[langchain]'` in a clone).

Texts are encoded by the `Embeddings` that LangChain is given, so the vault needs no encoder of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from ._fields import to_fields, to_metadata, to_where
from .encoder import Encoder
from .results import Hit, Record
from .vault import Vault


class ShardEmbeddings(Embeddings):
    """An encoder of Shard's as LangChain's embeddings."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of passages."""
        return self._encoder.encode(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return self._encoder.encode([text], query=True)[0].tolist()


class ShardVectorStore(VectorStore):
    """Documents in a vault. Filters are those of `Vault.search`: `{"year": {"$gte": 2020}}`."""

    def __init__(self, vault: Vault, embedding: Embeddings, *, direct: bool = False) -> None:
        """`direct` fetches passages by name: cheaper, and the server learns which were found."""
        self.vault = vault
        self._embedding = embedding
        self._direct = direct

    @property
    def embeddings(self) -> Embeddings:
        """What encodes texts."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Adds texts, or replaces those whose id is known. Of one id given twice the last counts."""
        texts = list(texts)
        if not texts:
            return []
        names = [name or str(uuid.uuid4()) for name in (ids or [None] * len(texts))]
        if len(names) != len(texts) or (metadatas is not None and len(metadatas) != len(texts)):
            raise ValueError("texts, metadatas and ids must have the same length")
        last = {name: row for row, name in enumerate(names)}
        kept = sorted(last.values())
        vectors = np.asarray(self._embedding.embed_documents([texts[row] for row in kept]), np.float32)
        self.vault.add(
            [texts[row] for row in kept],
            ids=[names[row] for row in kept],
            vectors=vectors,
            metadata=[to_fields(metadatas[row]) if metadatas else {} for row in kept],
        )
        return names

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Removes documents; ids that are not there are no error. A vault keeps at least one document."""
        if ids is None:
            raise ValueError("a vault is not emptied by accident: name the ids to delete")
        if ids and len(self.vault):
            self.vault.delete(ids, missing_ok=True)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Documents by id; those that are not there are left out."""
        if not len(self.vault):
            return []
        return [_document(one) for one in self.vault.get(ids, direct=self._direct) if one is not None]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The best documents for a text."""
        return [found for found, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The best documents for a text, with the inner products of their vectors and its own."""
        return self._search(self._embedding.embed_query(query), k, **kwargs)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """The best documents for a vector."""
        return [found for found, _ in self._search(embedding, k, **kwargs)]

    def _search(
        self,
        vector: list[float],
        k: int,
        filter: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        if not len(self.vault):
            return []
        where = None if filter is None else to_where(filter)
        hits = self.vault.search(np.asarray(vector, np.float32), k, where=where, direct=self._direct)
        return [(_document(hit), hit.score) for hit in hits]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        # Inner products of unit vectors are between -1 and 1.
        return lambda score: (1.0 + score) / 2.0

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        vault: Vault | None = None,
        **kwargs: Any,
    ) -> ShardVectorStore:
        """A store over `vault`, with these texts added."""
        if vault is None:
            raise ValueError("a store needs a vault: vault=shard.Vault.create(...)")
        store = cls(vault, embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store


def _document(found: Hit | Record) -> Document:
    return Document(id=found.id, page_content=found.text or "", metadata=to_metadata(found.metadata))
