"""A LlamaIndex index over a vault."""

from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

import shard
from conftest import PHRASE
from shard.llamaindex import ShardVectorStore


class Letters(MockEmbedding):
    """Counts letters: texts of the same letters are near each other."""

    def __init__(self):
        super().__init__(embed_dim=26)

    def _get_vector(self, text=""):
        return [float(text.lower().count(chr(97 + at))) + 0.01 for at in range(26)]

    def _get_text_embedding(self, text):
        return self._get_vector(text)

    def _get_query_embedding(self, query):
        return self._get_vector(query)

    async def _aget_query_embedding(self, query):
        return self._get_vector(query)


def test_nodes_are_found_filtered_and_removed(tmp_path):
    store = ShardVectorStore(shard.Vault.create(tmp_path / "vault", passphrase=PHRASE))
    documents = [
        Document(id_="zebra", text="zzz zebra zzz", metadata={"kind": "animal", "title": "Z"}),
        Document(id_="quartz", text="qqq quartz qqq", metadata={"kind": "stone"}),
        Document(id_="jazz", text="jjj jazz jjj", metadata={"kind": "music"}),
    ]
    index = VectorStoreIndex.from_documents(
        documents, storage_context=StorageContext.from_defaults(vector_store=store), embed_model=Letters()
    )
    found = index.as_retriever(similarity_top_k=1).retrieve("qqqq")
    assert [one.node.get_content() for one in found] == ["qqq quartz qqq"]
    assert found[0].node.metadata == {"kind": "stone"} and found[0].node.ref_doc_id == "quartz"
    only = MetadataFilters(filters=[MetadataFilter(key="kind", value="stone", operator=FilterOperator.NE)])
    found = index.as_retriever(similarity_top_k=3, filters=only).retrieve("qqqq")
    assert {one.node.ref_doc_id for one in found} == {"zebra", "jazz"}
    title = MetadataFilters(filters=[MetadataFilter(key="title", value="Z")])
    assert [node.ref_doc_id for node in store.get_nodes(filters=title)] == ["zebra"]
    index.delete_ref_doc("quartz", delete_from_docstore=True)
    assert len(store.client) == 2
    assert index.as_retriever(similarity_top_k=1).retrieve("qqqq")[0].node.ref_doc_id != "quartz"
