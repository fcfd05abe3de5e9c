"""Dynamo's graph breaks by id, and the rules that report them.

For each id, `dynalint/data/graph_breaks.json` says whether the break is visible in the source; if no rule reports a
visible break, why not; and the releases of torch that have it, if not all do. The rules for an id are those that name
it in their ids or documentation, and those that the file adds, for breaks that a rule covers without an example.
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
    """The description of an id: `type` is Dynamo's name for it, `rules` are the codes of the rules that report it."""

    id: str
    type: str
    seen: Seen
    rules: tuple[str, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the description as a JSON-compatible value."""
        return {
            "id": self.id,
            "type": self.type,
            "seen": self.seen,
            "rules": list(self.rules),
            "reason": self.reason or None,
        }


def graph_breaks() -> dict[str, GraphBreak]:
    """Return the descriptions of all ids, in order.

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
    # If there is a rule for a break, then it is visible in the source.
    seen: Seen = "partly" if rules and raw["seen"] not in ("static", "partly") else raw["seen"]
    return GraphBreak(name, raw["type"], seen, tuple(sorted(rules)), raw.get("reason", ""))


def ids_of(entry: Entry) -> frozenset[str]:
    """Return the ids that a rule names: its own, those of its examples, and those in its documentation."""
    examples = (name for example in entry.examples for name in example.gb)
    return frozenset({*entry.gb, *examples, *_ID.findall(entry.documentation)})


@cache
def table() -> dict[str, Any]:
    """Return the content of the file: the torch releases that it covers, and the records by id."""
    text = files("dynalint").joinpath("data").joinpath("graph_breaks.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
