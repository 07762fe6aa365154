"""Texts in, passages out, with the real model."""

import http.server
import json
import threading
from pathlib import Path

import pytest

import shard
from conftest import PHRASE

# Models of a few numbers each.
SMALL = Path(__file__).resolve().parents[2] / "encode" / "tests" / "fixtures"

TEXTS = [
    "The heart pumps blood through the body.",
    "Paris is the capital of France.",
    "Bread is made of flour, water and salt.",
]


def test_texts_are_found_by_what_they_mean(tmp_path, minilm):
    vault = shard.Vault.create(tmp_path / "vault", passphrase=PHRASE, encoder=minilm)
    vault.add(TEXTS, ids=["heart", "paris", "bread"], metadata=[{"topic": t} for t in ("body", "place", "food")])
    assert [vault.search(query, k=1)[0].id for query in ("circulation", "a city in Europe", "baking")] == [
        "heart",
        "paris",
        "bread",
    ]
    assert vault.search("circulation", k=1)[0].text == TEXTS[0]
    assert vault.search("circulation", k=1, where={"topic": "food"})[0].id == "bread"
    again = shard.Vault.open(tmp_path / "vault", passphrase=PHRASE)
    assert again.search("baking", k=1)[0].id == "bread"


def test_long_texts_are_cut(tmp_path, minilm):
    vault = shard.Vault.create(tmp_path / "vault", passphrase=PHRASE, encoder=minilm)
    story = " ".join(TEXTS * 20)
    assert vault.add([story], ids=["story"], chunk=32, overlap=8).added > 10
    hit = vault.search("circulation of the blood", k=1)[0]
    assert hit.metadata["document"] == "story" and hit.text in story
    assert story.encode()[hit.metadata["start"] : hit.metadata["end"]].decode() == hit.text


def test_a_text_has_one_vector_of_unit_length(minilm):
    one, same = minilm.encode(["Paris is the capital of France."] * 2)
    assert (one == same).all() and abs(float(one @ one) - 1) < 1e-5 and minilm.dimension == 384


def test_a_vault_keeps_to_the_encoder_of_its_texts(tmp_path):
    vault = shard.Vault.create(tmp_path / "vault", passphrase=PHRASE)
    with pytest.raises(shard.InputError, match="no text was ever ingested into this vault"):
        vault.search("baking")
    held, given = shard.Encoder(SMALL / "mean"), shard.Encoder(SMALL / "cls")
    shard.Vault.open(tmp_path / "vault", passphrase=PHRASE, encoder=held).add(TEXTS)
    other = shard.Vault.open(tmp_path / "vault", passphrase=PHRASE, encoder=given)
    for use in (lambda: other.search("baking"), lambda: other.add(["More."])):
        with pytest.raises(shard.EncoderError) as refused:
            use()
        assert str(refused.value) == (
            f"the documents of this vault were encoded by {held.identity}, and this is {given.identity}: "
            "vectors of two encoders cannot be compared (open the vault with the right encoder=)"
        )


class Endpoint(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = [{"index": at, "embedding": [1, len(text), 0, 0]} for at, text in enumerate(asked["input"])]
        answer = json.dumps({"model": asked["model"], "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def test_an_endpoint_has_to_be_named_and_the_error_says_how(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        location = f"http://127.0.0.1:{server.server_port}/v1#small"
        shard.Vault.create(tmp_path / "vault", passphrase=PHRASE, encoder=location).add(TEXTS)
        with pytest.raises(shard.EncoderError, match="name it yourself.*open the vault with encoder="):
            shard.Vault.open(tmp_path / "vault", passphrase=PHRASE).search("baking")
        named = shard.Vault.open(tmp_path / "vault", passphrase=PHRASE, encoder=location)
        assert len(named.search("baking")) == len(TEXTS)
        server.shutdown()
