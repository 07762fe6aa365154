"""A vault of vectors: what is added is found, what is wrong is said, nothing is lost."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest

import shard
from conftest import PHRASE

OWN = ["_id", "id", "text", "title", "vector"]


def exact(vectors, query, k):
    return [str(row) for row in np.argsort(-(vectors.astype(np.float64) @ query), kind="stable")[:k]]


def filled(vault, vectors):
    vault.add(vectors=vectors, ids=[str(row) for row in range(len(vectors))])
    return vault


@pytest.mark.parametrize("protection", ["blind", "rotated"])
def test_search_ranks_as_exact_search_does(tmp_path, vectors, protection):
    vault = filled(shard.Vault.create(tmp_path / "v", passphrase=PHRASE, protection=protection), vectors)
    for query in vectors[:5] + 0.1:
        assert [hit.id for hit in vault.search(query, k=10)] == exact(vectors, query, 10)
        assert [hit.id for hit in vault.search(query, k=10, local=True)] == exact(vectors, query, 10)
    many = vault.search_many(vectors[:20], k=3)
    assert [[hit.id for hit in hits] for hits in many] == [exact(vectors, query, 3) for query in vectors[:20]]


def test_a_vault_with_cells_is_searched_by_some_or_all_of_them(tmp_path, vectors):
    def made(name, probe):
        settings = {"cells": 4, "probe": probe}
        return filled(shard.Vault.create(tmp_path / name, passphrase=PHRASE, settings=settings), vectors)

    everything, one = made("all", 4), made("one", 1)
    for query in vectors[:5] + 0.1:
        assert [hit.id for hit in everything.search(query, k=10)] == exact(vectors, query, 10)
        found = [hit.id for hit in one.search(query, k=200)]
        assert 0 < len(found) < 200
        assert found == [row for row in exact(vectors, query, 200) if row in found]
    with pytest.raises(shard.InputError, match="there are 4"):
        shard.Vault.create(tmp_path / "w", passphrase=PHRASE, settings={"cells": 4, "probe": 5})


def test_arrays_of_any_layout_are_taken(vault, vectors):
    filled(vault, vectors)
    expected = exact(vectors, vectors[3], 4)
    for query in (vectors[3], vectors[3].astype(np.float64), vectors[3].tolist(), np.asfortranarray(vectors)[3]):
        assert [hit.id for hit in vault.search(query, k=4)] == expected
    ids, stored = vault.vectors()
    assert ids == [str(row) for row in range(200)]
    assert stored.dtype == np.float32 and np.array_equal(stored, vectors)


def test_documents_come_and_go(vault, vectors):
    assert len(vault) == 0 and vault.search(vectors[0]) == [] and vault.ids() == []
    filled(vault, vectors)
    assert len(vault) == 200 and "7" in vault and "x" not in vault
    again = vault.add(vectors=vectors[:2], ids=["0", "new"])
    assert (again.added, again.replaced, again.unchanged, again.ids) == (1, 0, 1, ["0", "new"])
    assert vault.delete(["new", "7"]) == 2
    with pytest.raises(shard.InputError, match="new"):
        vault.delete(["new", "8"])
    assert "8" in vault
    assert vault.delete(["new", "8"], missing_ok=True) == 1
    assert [hit.id for hit in vault.search(vectors[7], k=1)] != ["7"]


def test_records_come_back_and_filters_hold(vault, vectors):
    metadata = [{"year": 2000 + row % 30, "tags": ["even" if row % 2 == 0 else "odd"]} for row in range(200)]
    ids = [f"d{row}" for row in range(200)]
    vault.add([f"text {row}" for row in range(200)], ids=ids, vectors=vectors, metadata=metadata)
    hits = vault.search(vectors[5], k=3)
    assert hits[0].text == "text 5" and hits[0].metadata == metadata[5]
    assert vault.search(vectors[5], k=1, passages=False)[0].text is None
    assert vault.search(vectors[5], k=1, direct=True)[0].text == "text 5"
    assert vault.search(vectors[5], k=1, local=True)[0].text == "text 5"
    where = {"year": {"$gte": 2020}, "tags": "even"}
    fits = [row for row in range(200) if row % 30 >= 20 and row % 2 == 0]
    assert sorted(vault.ids(where=where)) == sorted(f"d{row}" for row in fits)
    ranked = sorted(fits, key=lambda row: -float(vectors[row] @ vectors[5]))
    assert [hit.id for hit in vault.search(vectors[5], k=7, where=where)] == [f"d{row}" for row in ranked[:7]]
    assert [record and record.text for record in vault.get(["d9", "nobody"])] == ["text 9", None]
    with pytest.raises(shard.InputError, match="near"):
        vault.search(vectors[5], where={"year": {"$near": 1}})


def test_a_vector_much_longer_than_most_is_told_of(vault, vectors):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filled(vault, vectors)
    with pytest.warns(UserWarning, match="50 times as long as most.*length one") as told:
        assert vault.add(vectors=50 * vectors[:1], ids=["long"]).added == 1
    assert told[0].filename == __file__ and "long" in vault


def test_queries_may_have_two_secrets(tmp_path, vectors):
    def made(name, **settings):
        return shard.Vault.create(tmp_path / name, passphrase=PHRASE, settings=settings)

    def bits(vault):
        return filled(vault, vectors).plan()["security"][0]

    one, two = bits(made("one")), bits(made("two", query_secrets=2))
    assert one["queries"] < two["queries"] == two["rows"] and one == bits(made("same", query_secrets=1))
    for wrong, words in (
        (dict(query_secrets=3), "3 secrets for a query: 1 or 2"),
        (dict(query_secrets="two"), "query_secrets is 1 or 2"),
        (dict(query_rank=2), "there is no setting \"query_rank\": there are .*query_secrets"),
    ):
        with pytest.raises(shard.InputError, match=words):
            made("wrong", **wrong)


def test_a_filter_by_what_is_no_field_is_told_of(vault, vectors):
    vault.add(["a", "b"], vectors=vectors[:2], titles=["A", "B"], metadata=[{"year": 2000}, {"year": 2001}])
    with pytest.warns(UserWarning, match='no document has a field "yaer": there are year') as told:
        assert vault.search(vectors[0], where={"yaer": 2000}) == []
    assert told[0].filename == __file__
    for asked in (vault.ids, lambda where: vault.search_many(vectors[:1], where=where)[0]):
        with pytest.warns(UserWarning, match='"title" is no field to filter by: there are year'):
            assert asked(where={"title": "A"}) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(vectors=np.ones((2, 4)), ids=["a"]), "1 ids"),
        (dict(vectors=np.ones(4)), "one per row"),
        (dict(vectors=np.full((1, 4), np.nan)), "not finite"),
        (dict(vectors=np.ones((2, 4)), ids=["same", "same"]), "same"),
        (dict(vectors=np.ones((1, 4)), ids=[""]), "empty"),
        (dict(texts=["a"]), "knows no encoder: name one \\(give encoder= to Vault.create or Vault.open, or pass vectors="),
        *((dict(vectors=np.ones((1, 4)), metadata=[{own: 1}]), f"{own!r}.*a document's own") for own in OWN),
        (dict(vectors=np.ones((1, 4)), metadata=[{"x": float("nan")}]), "as JSON"),
        (dict(vectors=np.ones((1, 4)), metadata=[{"x": [{"y": 2**64}]}]), "'x' has more than 64 bits"),
        (dict(vectors=np.ones((1, 4)), ids="a"), "brackets"),
        (dict(), "nothing to add"),
    ],
)
def test_what_cannot_be_added_is_said_and_changes_nothing(vault, given, words):
    with pytest.raises(shard.InputError, match=words):
        vault.add(**given)
    assert len(vault) == 0


def test_errors_are_in_words(tmp_path, vault, vectors):
    with pytest.raises(shard.VaultError, match="there is"):
        shard.Vault.create(tmp_path / "vault", passphrase=PHRASE)
    with pytest.raises(shard.VaultError):
        shard.Vault.open(tmp_path / "vault", passphrase="another one")
    with pytest.raises(shard.VaultError):
        shard.Vault.open(tmp_path / "nowhere", passphrase=PHRASE)
    with pytest.raises(shard.InputError, match="passphrase"):
        shard.Vault.open(tmp_path / "vault")
    with pytest.raises(shard.InputError, match="tiles?"):
        shard.Vault.create(tmp_path / "w", passphrase=PHRASE, settings={"tile": 7})
    with pytest.raises(shard.InputError, match="no setting 'tyle'|no setting \"tyle\""):
        shard.Vault.create(tmp_path / "w", passphrase=PHRASE, settings={"tyle": 7})
    filled(vault, vectors)
    with pytest.raises(shard.InputError, match="width"):
        vault.search(np.ones(5))
    with pytest.raises(shard.InputError, match="at least 1"):
        vault.search(vectors[0], k=0)
    with pytest.raises(shard.EncoderError):
        shard.Encoder(tmp_path / "no-model")
    with pytest.raises(shard.InputError, match="server"):
        vault.publish()


def test_a_vault_answers_while_it_is_written_to(vault, vectors):
    filled(vault, vectors)
    seen = []
    writer = threading.Thread(target=lambda: [vault.add(vectors=vectors[:5], ids=list("abcde")) for _ in range(10)])
    writer.start()
    while writer.is_alive():
        seen.append((len(vault), repr(vault), len(vault.search(vectors[0], k=3)), vault.ids()[:1]))
    writer.join()
    assert seen and all(found == 3 for _, _, found, _ in seen) and len(vault) == 205


def test_reprs_say_what_things_are(vault, vectors):
    assert "empty" in repr(vault)
    filled(vault, vectors)
    assert "200 documents of 24 dimensions" in repr(vault) and "blind" in repr(vault)
    hit = vault.search(vectors[1], k=1)[0]
    assert abs(hit.score - 1) < 1e-5 and repr(hit) == f"Hit(id='1', score={hit.score:.6f})"


def test_a_vault_is_searched_from_many_threads_and_from_async_code(vault, vectors):
    filled(vault, vectors)
    found = [None] * 8

    def search(at):
        found[at] = [vault.search(vectors[row], k=1)[0].id for row in range(at, 40, 8)]

    threads = [threading.Thread(target=search, args=(at,)) for at in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [[str(row) for row in range(at, 40, 8)] for at in range(8)]

    async def together():
        return await asyncio.gather(*(vault.asearch(vectors[row], k=1) for row in range(10)))

    assert [hits[0].id for hits in asyncio.run(together())] == [str(row) for row in range(10)]


def test_a_vault_opens_again_as_it_was(tmp_path, vectors):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    filled(shard.Vault.create(tmp_path / "v", key_file=key), vectors)
    assert [hit.id for hit in shard.Vault.open(tmp_path / "v", key_file=key).search(vectors[9], k=1)] == ["9"]


def test_quality_and_cost_are_judged(vault, vectors):
    with pytest.raises(shard.InputError, match=r"the vault is empty.*shard\.plan\(rows, dimension\) needs none"):
        vault.plan()
    filled(vault, vectors)
    judged = vault.evaluate({"q": vectors[4]}, {"q": {"4": 1}})
    assert judged["raw"]["ndcg10"] == judged["shard_blind"]["ndcg10"] == 1.0
    figures = {"candidates", "d_pub", "cells", "recall10", "top10_identical", "top10_strict", "max_abs_error"}
    assert judged.keys() == {"raw", "shard_blind", "queries", "left_out"} | figures
    assert (judged["queries"], judged["left_out"], judged["candidates"]) == (1, 0, 200)
    plan = vault.plan()
    assert plan["rows"] == 200 and plan["blind"]["bytes_up"] > 0
    with pytest.raises(shard.InputError, match="no cells"):
        vault.plan(queries=vectors[:3])


def test_a_size_is_planned_with_prices(tmp_path, vectors):
    plan = shard.plan(100_000, 384)
    assert plan["recommendation"] and plan["capacity"]["workers"] == 1 and plan["prices"]["currency"]
    prices = dict(date="2026", currency="X", worker_hour=3.0, worker_cores=4, storage_gb_month=0, traffic_gb=0)
    large = shard.plan(10**8, 768, cells=4096, probe=64, worker_memory=256, prices=prices)
    assert large["capacity"]["year"]["total"] == pytest.approx(large["capacity"]["workers"] * 3.0 * 8760)
    for wrong, words in (
        (dict(cells=4), "go together"),
        (dict(cells=4, probe=5), "5 of 4 cells"),
        (dict(prices=prices | {"worker_hour": -1}), "zero or more"),
        (dict(prices={"currency": "X"}), "the prices: missing field"),
        (dict(worker_memory=0), "more than 0"),
    ):
        with pytest.raises(shard.InputError, match=words):
            shard.plan(1000, 384, **wrong)
    vault = shard.Vault.create(tmp_path / "v", passphrase=PHRASE, settings={"cells": 4, "probe": 1})
    probes = filled(vault, vectors).plan(queries=vectors[:9])["cells"]
    assert probes["queries"] == 9 and [one["probe"] for one in probes["probes"]] == [1, 2, 4]
    assert probes["probes"][-1]["recall10"] == 1.0


def test_an_audit_shows_itself(vault, vectors):
    filled(vault, vectors)
    with pytest.raises(shard.InputError, match="text"):
        vault.audit(texts={"0": "only one"})
    audit = vault.audit(vectors[:20], texts={str(row): f"text {row}" for row in range(200)})
    assert "open" not in audit.verdicts.values() and "closed" in audit.verdicts.values()
    untold = "No texts were given: nothing was read out of vectors."
    assert untold not in audit.html and untold in vault.audit().html
    assert "<iframe" in audit._repr_html_() and "closed" in repr(audit)


SEARCH = """
    rows = np.random.default_rng(1).standard_normal((2000, 64)).astype(np.float32)
    vault = shard.Vault.create(sys.argv[1], passphrase="a passphrase for tests")
    vault.add(vectors=rows)
    vault.search(rows[0])
    queries = np.tile(rows, (200, 1))
    vault.search_many(queries, k=1, passages=False, progress=print)
"""
ENCODE = """
    encoder = shard.Encoder(os.environ["SHARD_MINILM"])
    encoder.encode(["a text of some words " * 20] * 100_000, progress=print)
"""


@pytest.mark.parametrize("work", [SEARCH, ENCODE], ids=["search", "encode"])
def test_ctrl_c_ends_long_work(tmp_path, work, request):
    if work is ENCODE:
        request.getfixturevalue("minilm")
    # One call, of which `print` tells that it is under way: a function of C, in which the interpreter runs no handlers.
    program = "import os, sys\nimport numpy as np, shard\ntry:" + work + textwrap.dedent("""
        except KeyboardInterrupt:
            print("ended")
    """)
    # Whoever runs the tests in the background has had the signal ignored, and children inherit that.
    heed = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-u", "-c", program, str(tmp_path / "v")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        done, total = map(int, child.stdout.readline().split())
        assert done < total / 10
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=10)[0].splitlines()[-1] == "ended"
        assert child.returncode == 0
    finally:
        child.kill()
