"""A vault and `shard serve`, a server in a process of its own: SHARD_PROGRAM names the command."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

import shard
from conftest import PHRASE

READER = "a passphrase for the reader"


class Served:
    """A server on a free port of this machine."""

    def __init__(self, program, folder):
        self._program, self._folder = program, folder
        self._tokens = {scope: self._token(scope) for scope in ("read", "read,write")}
        command = [program, "serve", "data", "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._url = self._line("listening on ")
        self._pin = self._line("fingerprint ")

    def _token(self, scope):
        command = [self._program, "token", "create", "data", "--scope", scope, "--yes"]
        made = subprocess.run(command, cwd=self._folder, check=True, capture_output=True, text=True)
        return made.stdout.splitlines()[0]

    def _line(self, beginning):
        line = self._process.stdout.readline()
        assert line.startswith(beginning), line
        return line.removeprefix(beginning).strip()

    def options(self, scope):
        return dict(server=f"{self._url}/papers", token=self._tokens[scope], pin=self._pin)

    def stop(self):
        self._process.kill()
        self._process.wait()


@pytest.fixture
def served(program, tmp_path):
    server = Served(program, tmp_path)
    yield server
    server.stop()


def best(vectors, ids, query, k):
    return [ids[row] for row in np.argsort(-(vectors.astype(np.float64) @ query), kind="stable")[:k]]


def found(vault, query, k):
    return [hit.id for hit in vault.search(query, k=k)]


def test_a_reader_follows_the_owner_through_a_server(tmp_path, served, vectors):
    ids = [f"d{row}" for row in range(200)]
    owner = shard.Vault.create(tmp_path / "owner", passphrase=PHRASE, **served.options("read,write"))
    owner.add([f"text {row}" for row in range(150)], ids=ids[:150], vectors=vectors[:150])
    query = vectors[3] + 0.1
    with pytest.raises(shard.ServerError, match="publish"):
        owner.search(query)
    done = owner.publish()
    assert done["uploaded"] > 0 and done["activated"] and done["vectors_left"] == 0
    assert done["server"] == served.options("read")["server"] and done["server"] in repr(owner)

    owner.export(tmp_path / "reader", passphrase=READER)
    reader = shard.Vault.open(tmp_path / "reader", passphrase=READER, **served.options("read"))
    before = best(vectors[:150], ids[:150], query, 10)
    assert found(owner, query, 10) == found(reader, query, 10) == before
    assert reader.search(query, k=1)[0].text == f"text {before[0][1:]}"
    with pytest.raises(shard.ShardError, match="query vault"):
        reader.publish()

    owner.add(vectors=vectors[150:], ids=ids[150:])
    owner.delete(before[:1])
    assert owner.publish()["epoch"] == done["epoch"]
    pulled = reader.pull()
    assert pulled["to"] > pulled["from"] and len(reader) == 199
    left = [row for row in range(200) if ids[row] != before[0]]
    after = best(vectors[left], [ids[row] for row in left], query, 10)
    assert found(owner, query, 10) == found(reader, query, 10) == after != before

    wrong = served.options("read") | {"token": "shard_" + "0" * 43}
    with pytest.raises(shard.ShardError, match="token"):
        shard.Vault.open(tmp_path / "reader", passphrase=READER, **wrong).search(query)
    served.stop()
    with pytest.raises(shard.ServerError) as gone:
        reader.search(query)
    words = str(gone.value)
    assert words.startswith(f"cannot connect to {done['server']}: ") and "\n" not in words
    assert words.endswith("; check the address and that the server runs")


def test_a_vault_leaves_its_vectors_with_the_server(tmp_path, served, vectors):
    ids = [str(row) for row in range(200)]
    place, settings = tmp_path / "owner", {"keep_vectors": False}
    owner = shard.Vault.create(place, passphrase=PHRASE, settings=settings, **served.options("read,write"))
    owner.add(vectors=vectors[:150], ids=ids[:150])
    assert owner.publish()["vectors_left"] > 0
    assert owner.publish()["vectors_left"] == 0

    shutil.copytree(place, tmp_path / "copy")

    again = shard.Vault.open(place, passphrase=PHRASE, **served.options("read,write"))
    again.add(vectors=vectors[150:], ids=ids[150:])
    assert np.array_equal(again.vectors()[1], vectors)
    assert again.publish()["vectors_left"] > 0
    assert found(again, vectors[160], 3) == best(vectors, ids, vectors[160], 3)
    copy = shard.Vault.open(tmp_path / "copy", passphrase=PHRASE, **served.options("read"))
    pulled = copy.pull()
    assert pulled["to"] > pulled["from"] and np.array_equal(copy.vectors()[1], vectors)
    for folder in (place, tmp_path / "copy"):
        with pytest.raises(shard.VaultError, match="with the server"):
            shard.Vault.open(folder, passphrase=PHRASE).vectors()


# Locks of SQLite are those of a process, so it takes another one.
WRITER = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("BEGIN IMMEDIATE")
print("writing", flush=True)
sys.stdin.read()
"""


def test_vectors_that_cannot_be_let_go_of_stay_in_the_vault(tmp_path, served, vectors):
    place, settings = tmp_path / "owner", {"keep_vectors": False}
    owner = shard.Vault.create(place, passphrase=PHRASE, settings=settings, **served.options("read,write"))
    owner.add(vectors=vectors)
    command = [sys.executable, "-c", WRITER, str(place / "vault.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        with pytest.warns(UserWarning, match="the vectors are still in the vault: "):
            done = owner.publish()
        writer.stdin.close()
    assert done["uploaded"] > 0 and done["vectors_left"] == 0
    assert np.array_equal(shard.Vault.open(place, passphrase=PHRASE).vectors()[1], vectors)
