"""What calls give back."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def _shortened(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


@dataclass(frozen=True)
class Record:
    """What a document brings back: its text and everything that was stored beside it."""

    id: str
    text: str | None = None
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def _parse(cls, id: str, stored: bytes) -> Record:
        fields = json.loads(stored)
        fields.pop("id", None)
        return cls(id, fields.pop("text", None), fields.pop("title", None), fields)


@dataclass(frozen=True)
class Hit:
    """A document that was found. `text`, `title` and `metadata` are there where it has a record and
    passages were asked for."""

    id: str
    score: float
    text: str | None = None
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = "" if self.text is None else f", text={_shortened(self.text)!r}"
        return f"Hit(id={self.id!r}, score={self.score:.6f}{shown})"


@dataclass(frozen=True)
class Added:
    """What came of adding documents."""

    added: int
    replaced: int
    unchanged: int
    deleted: int
    ids: list[str] = field(repr=False, default_factory=list)


@dataclass(frozen=True)
class Audit:
    """The report of an audit. In a notebook it shows itself."""

    report: dict[str, Any] = field(repr=False)
    html: str = field(repr=False)

    @property
    def verdicts(self) -> dict[str, str]:
        """What came of each attack on the vault: `open`, `reduced`, `closed` or `not measured`."""
        attacks = [one for one in self.report["sections"] if not one["comparison"] and not one["seen"]]
        return {one["name"]: one["verdict"] or "not measured" for one in attacks}

    def write(self, directory: str | Path) -> None:
        """Leaves `audit.html` and `audit.json` in a directory, which is made if need be."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "audit.html").write_text(self.html, encoding="utf-8")
        (folder / "audit.json").write_text(json.dumps(self.report, indent=2) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        count = {verdict: 0 for verdict in ("open", "reduced", "closed", "not measured")}
        for verdict in self.verdicts.values():
            count[verdict] = count.get(verdict, 0) + 1
        return "Audit(" + ", ".join(f"{n} {verdict}" for verdict, n in count.items() if n) + ")"

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:720px;border:0" sandbox></iframe>'
