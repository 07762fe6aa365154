"""A LlamaIndex vector store over a vault (`pip install './crates/python[llamaindex]'` in a clone)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from ._fields import stored_name, to_fields, to_metadata
from .encoder import Encoder
from .results import Hit, Record
from .vault import Vault

_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
}


class ShardEmbedding(BaseEmbedding):
    """An encoder of Shard's as an embedding model of LlamaIndex."""

    _encoder: Encoder = PrivateAttr()

    def __init__(self, encoder: Encoder, **kwargs: Any) -> None:
        super().__init__(model_name=encoder.identity, **kwargs)
        self._encoder = encoder

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._encoder.encode([query], query=True)[0].tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._encoder.encode([text])[0].tolist()

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._encoder.encode(texts).tolist()


class ShardVectorStore(BasePydanticVectorStore):
    """Nodes in a vault, their texts sealed beside their vectors."""

    stores_text: bool = True
    is_embedding_query: bool = True

    _vault: Vault = PrivateAttr()
    _direct: bool = PrivateAttr()

    def __init__(self, vault: Vault, *, direct: bool = False) -> None:
        """`direct` fetches passages by name: cheaper, and the server learns which were found."""
        super().__init__(stores_text=True)
        self._vault = vault
        self._direct = direct

    @classmethod
    def class_name(cls) -> str:
        """The name that LlamaIndex knows it by."""
        return "ShardVectorStore"

    @property
    def client(self) -> Vault:
        """The vault."""
        return self._vault

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Adds nodes, or replaces those whose id is known."""
        if not nodes:
            return []
        ids = [node.node_id for node in nodes]
        self._vault.add(
            [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes],
            ids=ids,
            vectors=np.asarray([node.get_embedding() for node in nodes], np.float32),
            metadata=[to_fields(node_to_metadata_dict(node, remove_text=True)) for node in nodes],
        )
        return ids

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Removes the nodes of a document."""
        self._remove(self._vault.ids(where={"ref_doc_id": ref_doc_id}))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Removes nodes by id, by filter, or those that both name."""
        self._remove(self._matching(node_ids, filters))

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Nodes by id, by filter, or those that both name."""
        names = self._matching(node_ids, filters)
        found = self._vault.get(names, direct=self._direct) if names else []
        return [_node(one) for one in found if one is not None]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes whose vectors are nearest to the query's."""
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise ValueError(f"only the default mode is supported, not {query.mode.value}")
        if query.query_embedding is None:
            raise ValueError("the query has no embedding")
        if not len(self._vault):
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        conditions = [_where(query.filters)] if query.filters and query.filters.filters else []
        if query.doc_ids:
            conditions.append({"ref_doc_id": {"$in": list(query.doc_ids)}})
        k = len(self._vault) if query.node_ids else query.similarity_top_k
        hits = self._vault.search(
            np.asarray(query.query_embedding, np.float32),
            k,
            where={"$and": conditions} if conditions else None,
            passages=not query.node_ids,
            direct=self._direct,
        )
        if query.node_ids:
            wanted = set(query.node_ids)
            hits = [hit for hit in hits if hit.id in wanted][: query.similarity_top_k]
            found: list[Hit | Record | None] = list(self._vault.get([hit.id for hit in hits], direct=self._direct))
        else:
            found = list(hits)
        pairs = [(hit, one) for hit, one in zip(hits, found) if one is not None and one.text is not None]
        return VectorStoreQueryResult(
            nodes=[_node(one) for _, one in pairs],
            similarities=[hit.score for hit, _ in pairs],
            ids=[hit.id for hit, _ in pairs],
        )

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """`query`, without holding up the event loop."""
        return await asyncio.to_thread(self.query, query, **kwargs)

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """`add`, without holding up the event loop."""
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    def _matching(self, node_ids: list[str] | None, filters: MetadataFilters | None) -> list[str]:
        if node_ids is None and filters is None:
            raise ValueError("name the nodes, or give a filter")
        if filters is None:
            names = node_ids or []
            return [name for name, is_held in zip(names, self._vault.holds(names)) if is_held]
        found = self._vault.ids(where=_where(filters))
        return found if node_ids is None else [name for name in found if name in set(node_ids)]

    def _remove(self, ids: list[str]) -> None:
        if ids:
            self._vault.delete(ids)


def _node(found: Hit | Record) -> BaseNode:
    return metadata_dict_to_node(to_metadata(found.metadata), text=found.text)


def _where(filters: MetadataFilters) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for one in filters.filters:
        if isinstance(one, MetadataFilters):
            parts.append(_where(one))
        elif one.operator in _OPERATORS:
            parts.append({stored_name(one.key): {_OPERATORS[one.operator]: one.value}})
        else:
            raise ValueError(f"filters with {one.operator.value!r} are not supported")
    if filters.condition == FilterCondition.OR:
        return {"$or": parts}
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$and": parts}
