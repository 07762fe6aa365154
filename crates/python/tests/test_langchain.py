"""LangChain's own suite for vector stores, unmodified."""

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests import VectorStoreIntegrationTests

import shard
from conftest import PHRASE
from shard.langchain import ShardVectorStore


class TestShardVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        return ShardVectorStore(shard.Vault.create(tmp_path / "vault", passphrase=PHRASE), self.get_embeddings())


def test_metadata_of_any_name_come_back_and_filter(tmp_path):
    vault = shard.Vault.create(tmp_path / "vault", passphrase=PHRASE)
    metadatas = [{"title": "one", "id": 1, "text": "x"}, {"title": "two", "id": 2, "title_": "y"}]
    store = ShardVectorStore.from_texts(["a", "b"], DeterministicFakeEmbedding(size=8), metadatas, vault=vault)
    found = store.similarity_search("a", k=2, filter={"$or": [{"title": "two"}, {"id": {"$gt": 5}}]})
    assert [document.page_content for document in found] == ["b"]
    assert found[0].metadata == metadatas[1]
