"""Retrieval for a prompt with LlamaIndex, offline: python rag_llamaindex.py MODEL_FOLDER"""

import sys
import tempfile

from llama_index.core import Document, StorageContext, VectorStoreIndex

import shard
from shard.llamaindex import ShardEmbedding, ShardVectorStore

model = ShardEmbedding(shard.Encoder(sys.argv[1]))
store = ShardVectorStore(shard.Vault.create(tempfile.mkdtemp() + "/vault", passphrase="correct horse battery"))
texts = ["The heart pumps blood through the body.", "Paris is the capital of France.", "Bread is made of flour."]
storage = StorageContext.from_defaults(vector_store=store)
index = VectorStoreIndex.from_documents([Document(text=text) for text in texts], storage, embed_model=model)
question = "What moves the blood?"
found = index.as_retriever(similarity_top_k=1).retrieve(question)
context = "\n".join(one.node.get_content() for one in found)
print(f"Answer from this context only.\n\nContext:\n{context}\n\nQuestion: {question}")
