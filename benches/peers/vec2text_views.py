#!/usr/bin/env python3
"""Vec2Text on what an observer makes of stored vectors.

Reads the directory that `shard audit VAULT --export-views DIR` left: one .npy for each view of the
same documents (raw.npy is the control; prefix-only.npy, unknown-key.npy, ols-64.npy and so on are
the observer's estimates) and documents.npy, which says by its place which document each row is
about. Every view goes through a pretrained Vec2Text inverter and corrector, and what comes out is
scored by token-F1 and BLEU against the texts, where they are given.

What it needs, none of which comes with Shard:
  - torch, vec2text and transformers (`pip install vec2text`), for everything but --help;
  - checkpoints trained for the very encoder that made the vectors. Vec2Text has published
    `gtr-base` (768-d, mean-pooled, not normalised) and `text-embedding-ada-002` (1536-d); for
    another encoder train your own and name it with --inverter and --corrector. With vectors of
    another encoder the output is fluent and means nothing: look at the raw row first. If raw is
    near the floor, no other row says anything.

  vec2text_views.py DIR --checkpoint gtr-base --texts corpus.jsonl --steps 8 --json out.json
  vec2text_views.py DIR --inverter PATH --corrector PATH --views raw,prefix-only,ols-64

--texts is JSON lines, one document a line in the order of ingestion, with `text` and, if there is
one, `title` before it. Token-F1 is of the sets of lower-cased words; BLEU is BLEU-4 of one
sentence, smoothed by one for n > 1: both as in the audit's own text channel.
"""
import argparse
import collections
import json
import math
import pathlib
import re
import sys

CONTROL = "raw"
DOCUMENTS = "documents"
LONGEST = 4


def words(text):
    return re.findall(r"[^\W_]+", text.lower())


def token_f1(candidate, reference):
    emitted, there = set(candidate), set(reference)
    total = len(emitted) + len(there)
    return 2 * len(emitted & there) / total if total else 0.0


def ngrams(sentence, n):
    return collections.Counter(tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1))


def bleu(candidate, reference):
    if not candidate:
        return 0.0
    logarithms = 0.0
    for n in range(1, LONGEST + 1):
        matches = sum((ngrams(candidate, n) & ngrams(reference, n)).values())
        total = max(len(candidate) + 1 - n, 0)
        if n > 1:
            matches, total = matches + 1, total + 1
        if matches == 0:
            return 0.0
        logarithms += math.log(matches / total)
    shortness = 1 - len(reference) / len(candidate)
    return math.exp(logarithms / LONGEST + min(shortness, 0))


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=pathlib.Path, help="where the exported views are")
    parser.add_argument("--checkpoint", default="gtr-base", help="a published pair (gtr-base)")
    parser.add_argument("--inverter", help="an inverter of your own: a path or a model's name")
    parser.add_argument("--corrector", help="a corrector of your own, trained with that inverter")
    parser.add_argument("--texts", type=pathlib.Path, help="the documents, as JSON lines")
    parser.add_argument("--views", help="names by commas; all when not given")
    parser.add_argument("--limit", type=int, default=12, help="documents to invert (12)")
    parser.add_argument("--steps", type=int, default=8, help="correction steps (8)")
    parser.add_argument("--words", type=int, default=32, help="words of a text judged by (32)")
    parser.add_argument("--device", help="cpu or cuda; found when not given")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    options = parser.parse_args()
    if (options.inverter is None) != (options.corrector is None):
        parser.error("--inverter and --corrector go together")
    if options.limit < 1:
        parser.error("--limit is one or more")
    return options


def load_views(options, numpy):
    """The views by name, the control first, and the document of each row."""
    found = {path.stem: path for path in sorted(options.directory.glob("*.npy"))}
    if DOCUMENTS not in found or CONTROL not in found:
        sys.exit(f"{options.directory} lacks {DOCUMENTS}.npy or {CONTROL}.npy: is it an export?")
    documents = numpy.load(found.pop(DOCUMENTS)).reshape(-1).astype(int)[: options.limit]
    names = options.views.split(",") if options.views else [CONTROL, *(set(found) - {CONTROL})]
    missing = [name for name in names if name not in found]
    if missing:
        sys.exit(f"no such view: {', '.join(missing)}; there are {', '.join(found)}")
    order = sorted(names, key=lambda name: (name != CONTROL, name))
    return {name: numpy.load(found[name])[: options.limit] for name in order}, documents


def load_texts(path, documents, limit):
    """The words of each document, as many as the checkpoint was trained to read."""
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    if documents.max() >= len(records):
        sys.exit(f"{path} has {len(records)} documents, the views name number {documents.max()}")
    texts = (records[at] for at in documents)
    return [words(f"{record.get('title', '')} {record['text']}")[:limit] for record in texts]


def load_corrector(options):
    """A Vec2Text corrector; imported here so that --help needs nothing."""
    try:
        import vec2text
    except ImportError:
        sys.exit("vec2text is not installed: pip install vec2text (it brings torch)")
    if options.inverter is None:
        return vec2text, vec2text.load_pretrained_corrector(options.checkpoint)
    inverter = vec2text.models.InversionModel.from_pretrained(options.inverter)
    corrector = vec2text.models.CorrectorEncoderModel.from_pretrained(options.corrector)
    return vec2text, vec2text.load_corrector(inverter, corrector)


def main():
    options = arguments()
    try:
        import numpy
    except ImportError:
        sys.exit("numpy is not installed: pip install numpy")
    views, documents = load_views(options, numpy)
    references = load_texts(options.texts, documents, options.words) if options.texts else None
    vec2text, corrector = load_corrector(options)
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    corrector.model.to(device)
    corrector.inversion_trainer.model.to(device)
    control = views.get(CONTROL)
    results = []
    for name, vectors in views.items():
        sentences = vec2text.invert_embeddings(
            embeddings=torch.tensor(vectors, dtype=torch.float32, device=device),
            corrector=corrector,
            num_steps=options.steps,
        )
        result = {"view": name, "rows": len(vectors), "sentences": sentences}
        if control is not None:
            norms = numpy.linalg.norm(vectors, axis=1) * numpy.linalg.norm(control, axis=1)
            products = (vectors * control).sum(axis=1)
            result["cosine"] = float(numpy.mean(products / numpy.maximum(norms, 1e-12)))
        if references is not None:
            pairs = [(words(s), reference) for s, reference in zip(sentences, references)]
            result["token_f1"] = sum(token_f1(*pair) for pair in pairs) / len(pairs)
            result["bleu"] = sum(bleu(*pair) for pair in pairs) / len(pairs)
        results.append(result)
        figures = (f"{key} {result[key]:.3f}" for key in ("cosine", "token_f1", "bleu") if key in result)
        print(f"{name:24}", *figures, flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
