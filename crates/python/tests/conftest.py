"""Vaults, an encoder and the command for tests. With SHARD_MINILM=FOLDER the real model is used where a test asks for it,
with SHARD_PROGRAM=FILE the command `shard`."""

import os

import numpy as np
import pytest

import shard

PHRASE = "a passphrase for tests"


@pytest.fixture
def vault(tmp_path):
    return shard.Vault.create(tmp_path / "vault", passphrase=PHRASE)


@pytest.fixture
def vectors():
    values = np.random.default_rng(7).standard_normal((200, 24)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


@pytest.fixture(scope="session")
def minilm():
    folder = os.environ.get("SHARD_MINILM")
    if folder is None:
        if os.environ.get("CI"):
            pytest.fail("SHARD_MINILM names the folder that scripts/get-minilm made")
        pytest.skip("SHARD_MINILM is not set: scripts/get-minilm makes the folder it names")
    return shard.Encoder(folder)


@pytest.fixture(scope="session")
def program():
    named = os.environ.get("SHARD_PROGRAM")
    if named is None:
        if os.environ.get("CI"):
            pytest.fail("SHARD_PROGRAM names the command, built with the feature encode")
        pytest.skip("SHARD_PROGRAM is not set")
    return named
