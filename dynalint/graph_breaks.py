"""Dynamo's kinds of graph breaks by their ids, and which rules stand for each.

`dynalint/data/graph_breaks.json` says of each id whether reading source can show such a break, and where no rule stands
for one that it could show, why not. The rules that stand for an id are those that name it, among their ids or in their
documentation, and those that the table adds: for ids that they cover and that no example shows.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from dynalint.catalogue import Entry, catalogue

Seen = Literal["static", "partly", "dynamic", "internal"]

MEANINGS: dict[Seen, str] = {
    "static": "visible in the source",
    "partly": "some causes are visible in the source",
    "dynamic": "visible only when running",
    "internal": "caused inside torch, or by code that models do not contain",
}
assert tuple(MEANINGS) == get_args(Seen)

_ID = re.compile(r"\bGB\d{4}\b")


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """What is known of an id: `type` is Dynamo's name for it, `rules` are the codes that stand for it."""

    id: str
    type: str
    seen: Seen
    rules: tuple[str, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return everything, ready for `json.dumps`."""
        return {
            "id": self.id,
            "type": self.type,
            "seen": self.seen,
            "rules": list(self.rules),
            "reason": self.reason or None,
        }


def graph_breaks() -> dict[str, GraphBreak]:
    """Return all ids with what is known of them, in order.

    Raises:
        DynalintError: a rule pack cannot be imported.
    """
    naming: dict[str, set[str]] = defaultdict(set)
    for entry in catalogue().values():
        for name in ids_of(entry):
            naming[name].add(entry.code)
    return {name: _record(name, raw, naming[name]) for name, raw in table()["breaks"].items()}


def _record(name: str, raw: dict[str, Any], naming: set[str]) -> GraphBreak:
    rules = naming.union(raw.get("rules", ())) & catalogue().keys()
    # A rule that stands for a break is the proof that source can show it.
    seen: Seen = "partly" if rules and raw["seen"] not in ("static", "partly") else raw["seen"]
    return GraphBreak(name, raw["type"], seen, tuple(sorted(rules)), raw.get("reason", ""))


def ids_of(entry: Entry) -> frozenset[str]:
    """Return the ids that a rule names: as its own, by its examples, or in its documentation."""
    examples = (name for example in entry.examples for name in example.gb)
    return frozenset({*entry.gb, *examples, *_ID.findall(entry.documentation)})


@cache
def table() -> dict[str, Any]:
    """Return what the file holds: the release of torch that it was made for, and the records by id."""
    text = files("dynalint").joinpath("data").joinpath("graph_breaks.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
