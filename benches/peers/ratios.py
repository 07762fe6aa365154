#!/usr/bin/env python3
"""Puts the reports of one comparison side by side: ratios.py DIR [--json F]

Ratios are TenSEAL's figure over ours, against TenSEAL with one cell to a ciphertext at the paper's
chain; our slot layout at another chain or width is held against TenSEAL at the same.
"""
import argparse
import json
import pathlib


def times(ratio):
    """A ratio to three digits, without an exponent."""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def rows(directory):
    read = lambda path: json.loads(path.read_text())
    return {path.stem: read(path) for path in sorted(directory.glob("*.json"))}


def opponent(name, reports):
    """The TenSEAL run that a run of ours is held against."""
    peer = name.replace("shard-slots", "tenseal")
    return reports[peer if peer.startswith("tenseal") else "tenseal-60,40,40,60-b1"]


def ratios(name, reports):
    ours, theirs = reports[name], opponent(name, reports)
    cpu = lambda phase: theirs["cpu_ms"][phase]["p50"] / ours["cpu_ms"][phase]["p50"]
    traffic = lambda report: report["bytes"]["up"] + report["bytes"]["down"]
    return {
        "server_cpu": cpu("server"),
        "total_cpu": cpu("total"),
        "bytes": traffic(theirs) / traffic(ours),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    reports = rows(arguments.directory)
    compared = {name: ratios(name, reports) for name in reports if name.startswith("shard")}

    layout = "{:<28}{:>9}{:>10}{:>9}{:>10}{:>10}{:>10}{:>10}{:>9}{:>8} {:>8}{:>7}"
    print(
        layout.format(
            "CPU ms (median)", "out", "server", "in", "total", "KB up", "KB down", "KB once",
            "error", "server", "total", "bytes",
        )
    )
    for name in sorted(reports, key=lambda name: (name.startswith("shard"), name)):
        report = reports[name]
        cpu = lambda phase: f"{report['cpu_ms'][phase]['p50']:.2f}"
        kilobytes = lambda way: f"{report['bytes'][way] / 1e3:.1f}"
        ratio = lambda what: times(compared[name][what]) if name in compared else ""
        figures = [cpu("client_out"), cpu("server"), cpu("client_in"), cpu("total")]
        figures += [kilobytes("up"), kilobytes("down"), kilobytes("once")]
        figures.append(f"{report['max_abs_error']:.1e}")
        figures += [ratio("server_cpu"), ratio("total_cpu"), ratio("bytes")]
        print(layout.format(name, *figures))
    if arguments.json:
        result = {"runs": reports, "ratios": compared}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
