"""Retrieval for a prompt with LangChain, offline: python rag_langchain.py MODEL_FOLDER"""

import sys
import tempfile

import shard
from shard.langchain import ShardEmbeddings, ShardVectorStore

embeddings = ShardEmbeddings(shard.Encoder(sys.argv[1]))
vault = shard.Vault.create(tempfile.mkdtemp() + "/vault", passphrase="correct horse battery")
texts = ["The heart pumps blood through the body.", "Paris is the capital of France.", "Bread is made of flour."]
store = ShardVectorStore.from_texts(texts, embeddings, vault=vault)
question = "What moves the blood?"
found = store.as_retriever(search_kwargs={"k": 1}).invoke(question)
context = "\n".join(document.page_content for document in found)
print(f"Answer from this context only.\n\nContext:\n{context}\n\nQuestion: {question}")
