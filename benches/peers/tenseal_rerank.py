#!/usr/bin/env python3
"""The paper's encrypted reranker in TenSEAL, on candidates that Shard chose.

Reads a directory that `shard-lab bench rerank --dump DIR` left: docs.npy, queries.npy and
candidates.json (the rows and cells of every trial). For each trial the client turns the residual
of the query by a Haar matrix per active cell, encrypts B cells to a ciphertext and serialises;
the server deserialises, takes one ciphertext-plaintext dot product per candidate with an operand
that is zero outside the cell's block, adds the public score and serialises; the client
deserialises, decrypts and ranks.

Logical vectors are padded to a power of two: TenSEAL sums other lengths in several passes, so
this is the faster opponent. The server's context holds no secret key.

  tenseal_rerank.py DIR --chain 60,40,40,60 --width 1 --trials 15 --json F
"""
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # time of one core

import argparse
import json
import pathlib
import time

import numpy as np
import tenseal as ts

RING_DEGREE = 8192
SCALE = 2.0**40
# What goes up in the clear for every candidate: its name, its cell's place, its public score.
PLAIN_BYTES = 4 + 4 + 8


def next_power_of_two(number):
    return 1 << (number - 1).bit_length()


def haar(width, generator):
    """A uniform orthogonal matrix: QR of a Gaussian one, the signs of R folded in."""
    q, r = np.linalg.qr(generator.standard_normal((width, width)))
    return q * np.sign(np.diag(r))


class Contexts:
    """The client's keys, and the server's context as it arrives over the wire."""

    def __init__(self, chain):
        self.client = ts.context(
            ts.SCHEME_TYPE.CKKS, RING_DEGREE, coeff_mod_bit_sizes=chain, n_threads=1
        )
        self.client.global_scale = SCALE
        self.client.generate_galois_keys()
        wire = self.client.serialize(
            save_public_key=True,
            save_secret_key=False,
            save_galois_keys=True,
            save_relin_keys=False,
        )
        self.server = ts.context_from(wire, n_threads=1)
        self.bytes = len(wire)
        assert not self.server.is_private()


class Geometry:
    """Principal axes of the documents, cut in two."""

    def __init__(self, documents, d_pub):
        x = documents.astype(np.float64)
        self.mean = x.mean(0)
        _, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
        self.axes = vectors[:, ::-1]
        coordinates = (x - self.mean) @ self.axes
        self.prefixes, self.residuals = coordinates[:, :d_pub], coordinates[:, d_pub:]
        self.d_pub = d_pub

    def query(self, query):
        """Uncentred coordinates, so that scores order as raw inner products do."""
        coordinates = query.astype(np.float64) @ self.axes
        return coordinates[: self.d_pub], coordinates[self.d_pub :]


class Clock:
    """Milliseconds of this process's CPU and of the wall, by phase."""

    def __init__(self):
        self.cpu, self.wall = {}, {}

    def run(self, phase, work):
        cpu, wall = time.process_time(), time.perf_counter()
        made = work()
        self.cpu[phase] = (time.process_time() - cpu) * 1e3
        self.wall[phase] = (time.perf_counter() - wall) * 1e3
        return made


def rerank(contexts, geometry, query, rows, cells, width):
    """One query. Returns the clock, bytes up and down, ciphertexts up, and the worst error."""
    prefix, residual = geometry.query(query)
    order = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    places = [order[cell] for cell in cells]
    # Keys and stored rows were there before the query: not timed.
    keys = [haar(len(residual), np.random.default_rng(cell)) for cell in order]
    stored = [keys[place] @ geometry.residuals[row] for row, place in zip(rows, places)]
    public = geometry.prefixes[rows] @ prefix
    exact = public + geometry.residuals[rows] @ residual
    dimension, length = len(residual), next_power_of_two(width * len(residual))
    clock = Clock()

    def client_out():
        turned = [key @ residual for key in keys]
        wire = []
        for first in range(0, len(turned), width):
            slots = np.zeros(length)
            block = np.concatenate(turned[first : first + width])
            slots[: len(block)] = block
            wire.append(ts.ckks_vector(contexts.client, slots.tolist()).serialize())
        return wire

    def server(wire):
        queries = [ts.ckks_vector_from(contexts.server, message) for message in wire]
        answers = []
        for row, place, score in zip(stored, places, public):
            operand = np.zeros(length)
            start = place % width * dimension
            operand[start : start + dimension] = row
            answer = queries[place // width].dot(ts.plain_tensor(operand.tolist(), dtype="float"))
            answer.add_(float(score))
            answers.append(answer.serialize())
        return answers

    def client_in(wire):
        read = lambda message: ts.ckks_vector_from(contexts.client, message).decrypt()[0]
        scores = np.array([read(message) for message in wire])
        return scores, np.argsort(-scores, kind="stable")

    up = clock.run("client_out", client_out)
    down = clock.run("server", lambda: server(up))
    scores, _ = clock.run("client_in", lambda: client_in(down))
    for times in (clock.cpu, clock.wall):
        times["total"] = sum(times.values())
    return {
        "clock": clock,
        "up": sum(map(len, up)) + PLAIN_BYTES * len(rows),
        "down": sum(map(len, down)),
        "query_ciphertexts": len(up),
        "active_cells": len(order),
        "error": float(np.abs(scores - exact).max()),
    }


def percentiles(samples):
    return {"p50": float(np.percentile(samples, 50)), "p95": float(np.percentile(samples, 95))}


def report(trials, arguments, contexts, candidates):
    median = lambda name: int(np.median([trial[name] for trial in trials]))
    phases = ("client_out", "server", "client_in", "total")
    times = lambda clock: {
        phase: percentiles([getattr(trial["clock"], clock)[phase] for trial in trials])
        for phase in phases
    }
    return {
        "layout": "tenseal",
        "chain": arguments.chain,
        "ring_degree": RING_DEGREE,
        "log2_q": sum(arguments.chain),
        "cells_per_ciphertext": arguments.width,
        "active_cells": median("active_cells"),
        "query_ciphertexts": median("query_ciphertexts"),
        "response_ciphertexts": candidates,
        "bytes": {"up": median("up"), "down": median("down"), "once": contexts.bytes},
        "cpu_ms": times("cpu"),
        "wall_ms": times("wall"),
        "max_abs_error": max(trial["error"] for trial in trials),
        "trials": len(trials),
    }


def main():
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--chain", type=numbers, default=[60, 40, 40, 60])
    parser.add_argument("--width", type=int, default=1, help="cells of a query ciphertext")
    parser.add_argument("--trials", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()

    chosen = json.loads((arguments.directory / "candidates.json").read_text())
    geometry = Geometry(np.load(arguments.directory / "docs.npy"), chosen["d_pub"])
    queries = np.load(arguments.directory / "queries.npy")
    dimension = geometry.residuals.shape[1]
    if next_power_of_two(arguments.width * dimension) > RING_DEGREE // 2:
        parser.error(f"{arguments.width} cells of width {dimension} do not fit {RING_DEGREE // 2}")
    contexts = Contexts(arguments.chain)
    # Evenly over the dumped trials, so that few of them stand for all.
    count = min(arguments.trials, len(chosen["trials"]))
    sample = [chosen["trials"][at * len(chosen["trials"]) // count] for at in range(count)]
    run = lambda trial: rerank(
        contexts,
        geometry,
        queries[trial["query"]],
        trial["rows"],
        trial["cells"],
        arguments.width,
    )
    run(sample[0])  # warms pools and caches
    trials = [run(trial) for trial in sample]
    result = report(trials, arguments, contexts, len(sample[0]["rows"]))
    text = json.dumps(result, indent=2)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
