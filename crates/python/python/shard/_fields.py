"""Metadata of other frameworks as fields of records, and back.

A record's `id`, `_id`, `text`, `title` and `vector` are the document's own. Frameworks let metadata have any name, so one
that would meet a document's own gets an underscore behind it, and loses it again on the way back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OWN = {"id", "_id", "text", "title", "vector"}
_COMBINED = {"$and", "$or"}


def stored_name(name: str) -> str:
    """The field's name in a record."""
    return name + "_" if name.rstrip("_") in OWN else name


def _given_name(name: str) -> str:
    return name[:-1] if name.endswith("_") and name.rstrip("_") in OWN else name


def to_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record."""
    return {stored_name(name): value for name, value in metadata.items()}


def to_metadata(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that became these fields."""
    return {_given_name(name): value for name, value in fields.items()}


def to_where(filter: Mapping[str, Any]) -> dict[str, Any]:
    """The same conditions on fields."""
    where: dict[str, Any] = {}
    for name, condition in filter.items():
        if name in _COMBINED:
            where[name] = [to_where(part) for part in condition]
        elif name == "$not":
            where[name] = to_where(condition)
        else:
            where[stored_name(name)] = condition
    return where
