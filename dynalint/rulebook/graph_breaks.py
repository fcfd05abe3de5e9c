"""Dynamo's graph breaks by id, and the rules that report them.

For each id, `dynalint/data/graph_breaks.json` indicates whether the break is visible in the source, why no rule reports
it if it is visible, and which releases of torch have it if not all do. A rule covers an id if its own ids or its
documentation contain the id. The file adds rules for breaks that a rule covers without an example.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from dynalint.rulebook.catalogue import CodeEntry, catalogue

Seen = Literal["static", "partly", "dynamic", "internal"]

MEANINGS: dict[Seen, str] = {
    "static": "visible in the source",
    "partly": "some causes are visible in the source",
    "dynamic": "only visible at run time",
    "internal": "caused inside torch, or by code that models do not contain",
}
assert tuple(MEANINGS) == get_args(Seen)

_ID = re.compile(r"\bGB\d{4}\b")


@dataclass(frozen=True, slots=True)
class BreakKind:
    """The description of an id.

    `type` is Dynamo's name for it, and `rules` are the codes of the rules that report it.
    """

    id: str
    type: str
    seen: Seen
    rules: tuple[str, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the description as a value that can be converted to JSON."""
        return {
            "id": self.id,
            "type": self.type,
            "seen": self.seen,
            "rules": list(self.rules),
            "reason": self.reason or None,
        }


def graph_breaks() -> dict[str, BreakKind]:
    """Return the descriptions of all ids, in order.

    Raises:
        DynalintError: If a rule pack cannot be imported.
    """
    naming: dict[str, set[str]] = defaultdict(set)
    for entry in catalogue().values():
        for name in ids_of(entry):
            naming[name].add(entry.code)
    return {name: _record(name, raw, naming[name]) for name, raw in table()["breaks"].items()}


def _record(name: str, raw: dict[str, Any], naming: set[str]) -> BreakKind:
    rules = naming.union(raw.get("rules", ())) & catalogue().keys()
    # If there is a rule for a break, it must be visible in the source.
    seen: Seen = "partly" if rules and raw["seen"] not in ("static", "partly") else raw["seen"]
    return BreakKind(name, raw["type"], seen, tuple(sorted(rules)), raw.get("reason", ""))


def ids_of(entry: CodeEntry) -> frozenset[str]:
    """Return the ids that a rule names itself, in its examples, or in its documentation."""
    examples = (name for example in entry.examples for name in example.gb)
    return frozenset({*entry.gb, *examples, *_ID.findall(entry.documentation)})


@cache
def table() -> dict[str, Any]:
    """Return the file's contents: the torch releases that it covers, and the records by id."""
    text = files("dynalint").joinpath("data").joinpath("graph_breaks.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
