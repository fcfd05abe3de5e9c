"""The table of Dynamo's graph breaks: complete for the installed torch, and at one with the rules."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from dynalint.rulebook.catalogue import CodeEntry, catalogue, known_codes
from dynalint.rulebook.graph_breaks import MEANINGS, graph_breaks, ids_of, table
from dynalint.rulebook.releases import holds
from dynalint.testing.cases import installed_torch

TABLE = "dynalint/data/graph_breaks.json"
VISIBLE = ("static", "partly")


def registry() -> dict[str, list[str]]:
    """The ids of the installed torch with their names, in this release and in those before."""
    found = find_spec("torch")
    assert found is not None
    assert found.origin is not None
    text = Path(found.origin).with_name("_dynamo").joinpath("graph_break_registry.json").read_text(encoding="utf-8")
    return {name: [one["Gb_type"] for one in versions] for name, versions in json.loads(text).items()}


def is_covered(release: str | None) -> bool:
    """Whether the table is about this release. Older ones have some of its ids, partly under other names."""
    return holds(f">={table()['torch'].partition(' ')[0]}", release)


@pytest.mark.dynamo
def test_every_id_of_torch_is_classed() -> None:
    installed, release = registry(), installed_torch()
    classed = {name: raw for name, raw in table()["breaks"].items() if holds(raw.get("torch", ""), release)}
    new = [f"{name} ({installed[name][0]})" for name in sorted(installed.keys() - classed.keys())]
    gone = sorted(classed.keys() - installed.keys()) if is_covered(release) else []
    assert not new, f"torch has graph breaks that {TABLE} does not class: {', '.join(new)}"
    assert not gone, f"{TABLE} has ids that torch no longer has: {', '.join(gone)}"


@pytest.mark.dynamo
def test_names_are_those_of_torch() -> None:
    installed = registry() if is_covered(installed_torch()) else {}
    stale = [
        f"{name} is {installed[name][0]!r}, not {raw['type']!r}"
        for name, raw in table()["breaks"].items()
        if raw["type"] not in installed.get(name, [raw["type"]])
    ]
    assert not stale, f"names in {TABLE} are out of date: {'; '.join(stale)}"


def test_records_are_well_formed() -> None:
    breaks = table()["breaks"]
    assert list(breaks) == sorted(breaks), f"the ids in {TABLE} are not sorted"
    for name, raw in breaks.items():
        assert raw.keys() <= {"type", "seen", "rules", "reason", "torch"}, name
        assert raw["seen"] in MEANINGS, name
        assert not raw.get("reason") or raw["reason"].endswith("."), name


def test_every_code_exists() -> None:
    unknown = {
        f"{code} at {name}"
        for name, raw in table()["breaks"].items()
        for code in raw.get("rules", ())
        if code not in known_codes()
    }
    assert not unknown, f"{TABLE} names rules that there are not: {', '.join(sorted(unknown))}"


def test_what_source_shows_has_a_rule_or_a_reason() -> None:
    bare = [
        f"{one.id} ({one.type})"
        for one in graph_breaks().values()
        if one.seen in VISIBLE and not one.rules and not one.reason
    ]
    assert not bare, f"no rule stands for these, and {TABLE} says not why: {', '.join(bare)}"


@pytest.mark.parametrize("entry", catalogue().values(), ids=lambda entry: entry.code)
def test_what_a_rule_names_is_in_the_table(entry: CodeEntry) -> None:
    breaks = graph_breaks()
    for name in ids_of(entry):
        assert name in breaks, f"{entry.code} names {name}, which torch does not have"
        assert entry.code in breaks[name].rules
