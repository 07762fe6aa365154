"""The vault: documents, search, and everything that keeps a server's copy up to date."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _shard
from ._errors import InputError
from ._fields import OWN
from .encoder import Encoder, as_list
from .results import Added, Audit, Hit, Record

Progress = Callable[[int, int], object]
Where = Mapping[str, Any]


def plan(
    rows: int,
    dimension: int,
    *,
    megabits: float | None = None,
    cells: int | None = None,
    probe: int | None = None,
    worker_memory: float = 64,
    searches: float = 100_000,
    prices: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compares the ways to search so many documents of a dimension: bytes, times, memory, what the
    server learns, and which to take. `capacity` is what a blind collection of that size takes.

    With `cells` a search asks for `probe` of them. Workers have `worker_memory` GB, and all clients together
    search `searches` times a day. `prices` are those of a file for `shard plan --prices`: `date`, `currency`,
    `worker_hour`, `worker_cores`, `storage_gb_month`, `traffic_gb`; without them they are placeholders, which
    are nobody's.
    """
    if (cells is None) != (probe is None):
        raise InputError("cells and probe go together: how many there are, and how many a search asks for")
    asked = None if cells is None or probe is None else (cells, probe)
    given = None if prices is None else json.dumps(dict(prices))
    return json.loads(_shard.plan(rows, dimension, megabits, asked, worker_memory, searches, given))


class Vault:
    """A directory with the keys and the index of a collection, and the server that it is searched
    through: one in this process, or with `server=` one on a network.

    Many threads may use a vault at once. Work runs without the interpreter's lock; a `progress` function is called as
    `progress(done, total)` meanwhile, and must not use the vault itself.

    Arrays that are given are copied once, because other threads may change them while the lock is released;
    those that come back are not copied.
    """

    def __init__(self, core: _shard.Core, encoder: Encoder | None) -> None:
        self._core = core
        self._encoder = encoder

    # Making and opening

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        *,
        passphrase: str | None = None,
        key_file: str | os.PathLike[str] | None = None,
        protection: str = "blind",
        settings: Mapping[str, Any] | None = None,
        encoder: Encoder | str | os.PathLike[str] | None = None,
        server: str | None = None,
        token: str | None = None,
        pin: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> Vault:
        """Makes a vault in a directory that is empty or does not exist.

        `passphrase` or the bytes of `key_file` open it from now on; there is no other way in.
        `protection` is `blind` (ciphertexts, all of which the server scores) or `rotated` (the paper's
        construction). `settings` are those of the command `shard init`: `tile`, `query_secrets`, `keep_vectors`, `cells`,
        `probe`, `transform`, `d_pub`, `candidates`, `seed`. With `query_secrets` 2 the queries of a blind vault rest on
        as hard a problem as its rows. A search of a blind vault
        with `cells` asks for `probe` of them, and the server learns which. With `keep_vectors` false the
        vectors are with the server alone once they are published, sealed.
        """
        model = _opened(encoder)
        core = _shard.Core.create(
            os.fspath(directory),
            passphrase,
            _path(key_file),
            protection,
            json.dumps(dict(settings or {})),
            _server(server, token, pin, ca_file),
        )
        return cls(core, model)

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        passphrase: str | None = None,
        key_file: str | os.PathLike[str] | None = None,
        encoder: Encoder | str | os.PathLike[str] | None = None,
        server: str | None = None,
        token: str | None = None,
        pin: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> Vault:
        """Opens a vault, an owner's or a reader's. Without `encoder` the one is looked for that its
        documents were encoded with, where it was then, if that is a folder; an endpoint has to be named. A
        vault that does not keep its vectors fetches them from `server`."""
        core = _shard.Core.open(
            os.fspath(directory), passphrase, _path(key_file), _server(server, token, pin, ca_file)
        )
        return cls(core, _opened(encoder))

    # Documents

    def add(
        self,
        texts: Sequence[str] | None = None,
        *,
        ids: Sequence[str] | None = None,
        vectors: ArrayLike | None = None,
        titles: Sequence[str | None] | None = None,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
        chunk: int | None = None,
        overlap: int = 0,
        progress: Progress | None = None,
    ) -> Added:
        """Adds documents, or replaces those whose id is known; all of them or, after an error, none.

        Texts are encoded with the vault's encoder, in pieces of `chunk` tokens that overlap by `overlap`
        if that is given; with `vectors`, one per row, they are taken as they are. Texts, titles and
        metadata are sealed beside the vectors and come back with hits. Fields of metadata may have any name but `id`, `_id`,
        `text`, `title` and `vector`, which are a document's own. Ids are made up where there are none, and returned.
        A vector that is much longer than most is a warning: it costs the scores of the others precision.
        """
        texts = None if texts is None else as_list("texts", texts)
        ids = None if ids is None else as_list("ids", ids)
        count = _count(texts=texts, ids=ids, vectors=vectors, titles=titles, metadata=metadata)
        if texts is None and vectors is None:
            raise InputError("there is nothing to add: give texts or vectors")
        names = [str(uuid.uuid4()) for _ in range(count)] if ids is None else ids
        if count == 0:
            return Added(0, 0, 0, 0, [])
        fields = [dict(one or {}) for one in metadata] if metadata is not None else [{} for _ in names]
        for id, own in zip(names, fields):
            if taken := OWN & own.keys():
                raise InputError(
                    f"the metadata of {id!r} has a field {min(taken)!r}: {', '.join(sorted(OWN))} are a document's own, "
                    "give the field another name"
                )
        heads = list(titles) if titles is not None else [None] * count
        if vectors is None:
            encoder = self._encoder_for_texts()
            given = [
                (id, title, text, _json(own, id))
                for id, title, text, own in zip(names, heads, texts or [], fields)
            ]
            cut = None if chunk is None else (chunk, overlap)
            done = self._core.add_texts(given, encoder._core, cut, progress)
        elif chunk is not None:
            raise InputError("texts that come with vectors are not cut: leave out chunk")
        else:
            bodies = list(texts) if texts is not None else [None] * count
            records = [
                _record(id, title, text, own) for id, title, text, own in zip(names, heads, bodies, fields)
            ]
            done = self._core.add_vectors(names, _matrix(vectors), records, progress)
        return Added(*done, names)

    def delete(self, ids: Iterable[str], *, missing_ok: bool = False) -> int:
        """Removes documents, and returns how many. An id that is not there is an error, and nothing is
        removed then, unless `missing_ok`. A vault keeps at least one document."""
        return self._core.delete(as_list("ids", ids), missing_ok)

    def get(self, ids: Iterable[str], *, direct: bool = False) -> list[Record | None]:
        """The records of documents, in the order of the ids; `None` where there is no such document or
        it has no record. They are fetched without telling the server which, unless `direct`."""
        names = as_list("ids", ids)
        stored = self._core.fetch(names, direct, False)
        return [None if one is None else Record._parse(id, one) for id, one in zip(names, stored)]

    def ids(self, where: Where | None = None) -> list[str]:
        """The ids of all documents, or of those whose metadata fit; no server is asked. `where` is that of
        `search`."""
        return self._core.ids(_filter(where))

    def vectors(self) -> tuple[list[str], np.ndarray]:
        """The ids and the original vectors of all documents, of an owner's vault."""
        return self._core.vectors()

    def __len__(self) -> int:
        return self._core.shape()[0]

    def holds(self, ids: Iterable[str]) -> list[bool]:
        """Which of some ids are there."""
        return self._core.holds(as_list("ids", ids))

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._core.holds([id])[0]

    # Search

    def search(
        self,
        query: str | ArrayLike,
        k: int = 10,
        *,
        where: Where | None = None,
        passages: bool = True,
        direct: bool = False,
        local: bool = False,
    ) -> list[Hit]:
        """The `k` best documents for a text or a vector, best first.

        `where` restricts them by metadata, `{"year": {"$gte": 2020}, "lang": {"$in": ["en", "de"]}}`, and
        not by a document's own `id`, `_id`, `text`, `title` and `vector`; a field that no document has is a warning. The
        server sees nothing of it. Passages are fetched without telling the server which were
        found, unless `direct`. `local` searches the vectors in the vault and asks no server at all.
        """
        vector = self._vectors_of([query])[0] if isinstance(query, str) else _vector(query)
        found = self._core.search(vector, _top(k), _filter(where), local)
        return self._hits([found], passages, direct, local)[0]

    def search_many(
        self,
        queries: Sequence[str] | ArrayLike,
        k: int = 10,
        *,
        where: Where | None = None,
        passages: bool = True,
        direct: bool = False,
        local: bool = False,
        progress: Progress | None = None,
    ) -> list[list[Hit]]:
        """As `search`, for several queries, which share passes over the server's blocks."""
        if len(queries) == 0:
            return []
        found = self._core.search_many(self._queries(queries), _top(k), _filter(where), local, progress)
        return self._hits(found, passages, direct, local)

    async def asearch(self, query: str | ArrayLike, k: int = 10, **options: Any) -> list[Hit]:
        """`search`, without holding up the event loop."""
        return await asyncio.to_thread(self.search, query, k, **options)

    async def asearch_many(
        self, queries: Sequence[str] | ArrayLike, k: int = 10, **options: Any
    ) -> list[list[Hit]]:
        """`search_many`, without holding up the event loop."""
        return await asyncio.to_thread(self.search_many, queries, k, **options)

    def _hits(
        self, found: list[list[tuple[str, float]]], passages: bool, direct: bool, local: bool
    ) -> list[list[Hit]]:
        if not passages or not self._core.has_records():
            return [[Hit(id, score) for id, score in hits] for hits in found]
        names = list(dict.fromkeys(id for hits in found for id, _ in hits))
        stored = self._core.fetch(names, direct, local)
        records = {id: Record._parse(id, one) for id, one in zip(names, stored) if one is not None}

        def hit(id: str, score: float) -> Hit:
            record = records.get(id)
            if record is None:
                return Hit(id, score)
            return Hit(id, score, record.text, record.title, record.metadata)

        return [[hit(id, score) for id, score in hits] for hits in found]

    def _encoder_for_texts(self) -> Encoder:
        if self._encoder is None:
            self._encoder = Encoder._of(self._core.open_encoder())
        self._core.check_encoder(self._encoder._core)
        return self._encoder

    def _vectors_of(self, queries: list[str]) -> np.ndarray:
        return self._encoder_for_texts().encode(queries, query=True)

    def _queries(self, queries: Sequence[str] | ArrayLike) -> np.ndarray:
        """The vectors of queries that are texts, or those given."""
        if isinstance(queries, Sequence) and all(isinstance(query, str) for query in queries):
            return self._vectors_of(as_list("queries", queries))
        return _matrix(queries)

    # The server's copy

    def publish(self, *, replace: bool = False, fresh_checks: bool = False, progress: Progress | None = None) -> dict[str, Any]:
        """Brings the server to the state of the vault, sending what changed. Returns what `shard publish --json`
        writes. A vault that does not keep its vectors lets go of them, once each was read back."""
        return json.loads(self._core.publish(replace, fresh_checks, progress))

    def pull(self, *, progress: Progress | None = None) -> dict[str, Any]:
        """Brings this copy of the vault to what is published, its own changes on top. Returns what
        `shard pull --json` writes."""
        return json.loads(self._core.pull(progress))

    def rekey(self, *, progress: Progress | None = None) -> None:
        """Gives the documents fresh keys and names; with the next publish every reader is revoked."""
        self._core.rekey(progress)

    def export(
        self,
        directory: str | os.PathLike[str],
        *,
        passphrase: str | None = None,
        key_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Makes a vault for somebody who may search and nothing else."""
        self._core.export(os.fspath(directory), passphrase, _path(key_file))

    # Judging

    def plan(
        self, *, megabits: float | None = None, queries: Sequence[str] | ArrayLike | None = None
    ) -> dict[str, Any]:
        """Compares the ways to search this collection, as `shard.plan` does. Of a vault with cells, `cells` is
        what searches of some of them find, measured with `queries` or with its own documents."""
        if self._core.shape()[1] is None:
            raise InputError("the vault is empty: add documents first; shard.plan(rows, dimension) needs none")
        matrix = None if queries is None else self._queries(queries)
        return json.loads(self._core.plan(megabits, matrix))

    def evaluate(
        self,
        queries: Mapping[str, str] | Mapping[str, ArrayLike],
        qrels: Mapping[str, Mapping[str, int]],
    ) -> dict[str, Any]:
        """Judges retrieval against raw exact search: queries by id, and for each the relevance of
        documents by id. Returns what `shard eval --json` writes."""
        names = list(queries)
        values = [queries[name] for name in names]
        matrix = self._queries(values)
        judged = [
            f"{query}\t{document}\t{relevance}"
            for query, documents in qrels.items()
            for document, relevance in documents.items()
        ]
        return json.loads(self._core.evaluate(names, matrix, "\n".join(judged)))

    def audit(
        self,
        queries: Sequence[str] | ArrayLike | None = None,
        *,
        texts: Mapping[str, str] | None = None,
        sample: int = 10_000,
    ) -> Audit:
        """Plays the thief: runs every known attack against what the server holds, on these very
        documents. Takes minutes. Sample queries add what requests give away, and the texts of all documents,
        by id, what can be read out of vectors."""
        matrix = None if queries is None else self._queries(queries)
        report, page = self._core.audit(matrix, None if texts is None else list(texts.items()), sample)
        return Audit(json.loads(report), page)

    def __repr__(self) -> str:
        return self._core.describe()


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _opened(encoder: Encoder | str | os.PathLike[str] | None) -> Encoder | None:
    return encoder if encoder is None or isinstance(encoder, Encoder) else Encoder(encoder)


def _server(
    server: str | None, token: str | None, pin: str | None, ca_file: str | os.PathLike[str] | None
) -> tuple[str, str | None, str | None, str | None] | None:
    if server is not None:
        return (server, token, pin, _path(ca_file))
    if token is not None or pin is not None or ca_file is not None:
        raise InputError("token, pin and ca_file are of a server: name it with server=")
    return None


def _record(id: str, title: str | None, text: str | None, fields: dict[str, Any]) -> str | None:
    """A record as JSON; none of a document that is nothing but a vector."""
    if title is None and text is None and not fields:
        return None
    own = {"id": id} | ({} if title is None else {"title": title}) | ({} if text is None else {"text": text})
    return _json(own | fields, id)


def _json(fields: Mapping[str, Any], id: str) -> str:
    for name, value in fields.items():
        if _has_long_integer(value):
            raise InputError(
                f"the metadata of {id!r}: an integer of the field {name!r} has more than 64 bits and would be rounded: "
                "give it as a text"
            )
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the metadata of {id!r} cannot be stored as JSON: {error}") from error


def _has_long_integer(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_long_integer, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_long_integer, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def _count(**given: Any) -> int:
    """The number of documents that all lists agree on."""
    counts = {name: len(values) for name, values in given.items() if values is not None}
    if len(set(counts.values())) > 1:
        raise InputError("lists of different lengths: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    return next(iter(counts.values()), 0)


def _matrix(values: Any) -> np.ndarray:
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != 2:
        raise InputError(f"vectors come one per row: an array of {array.ndim} dimensions was given")
    return array


def _vector(values: Any) -> np.ndarray:
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != 1:
        raise InputError(f"a query is one vector: an array of {array.ndim} dimensions was given")
    return array


def _top(k: int) -> int:
    if k < 1:
        raise InputError("k must be at least 1")
    return k


def _filter(where: Where | None) -> str | None:
    try:
        return None if where is None else json.dumps(where, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"where: {error}") from error
