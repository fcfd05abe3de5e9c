"""Code that resembles the examples of a rule: its findings, and what becomes of it.

Most of it shows what a rewrite must not be offered for, or must not change. It is written like the examples on a rule's
page, but a page only shows what readers need to see. `./dev long` also runs it under Dynamo.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynalint.rulebook.pages import parse_page
from dynalint.rules import all_rules
from dynalint.testing.cases import Case
from dynalint.testing.harness import Proof

_PAGES = {page.name: page for page in (Path(__file__).parent / "look_alikes").glob("*.md")}


def _cases() -> Iterator[Case]:
    for rule in all_rules():
        page = _PAGES.get(Path(inspect.getfile(type(rule))).with_suffix(".md").name)
        if page is not None:
            text = page.read_text(encoding="utf-8")
            yield from (Case(rule, one) for one in parse_page(text, str(page), f"{rule.code}: {rule.name}").examples)


_CASES = list(_cases())


@pytest.fixture(scope="module", params=[case for case in _CASES if case.applies], ids=lambda case: case.name)
def proof(request: pytest.FixtureRequest) -> Proof:
    return Proof(request.param, all_rules())


def test_findings(proof: Proof) -> None:
    proof.prove_findings()


def test_fix(proof: Proof) -> None:
    proof.prove_fix()


@pytest.mark.long
@pytest.mark.usefixtures("torch_is_no_burden")
def test_run(proof: Proof) -> None:
    proof.prove_run()


def test_none_is_lost() -> None:
    written = sum(page.read_text(encoding="utf-8").count("\n```py\n") for page in _PAGES.values())
    assert len(_CASES) == written


def test_no_name_stands_on_the_page_too() -> None:
    assert not [case.name for case in _CASES if case.example.name in {one.name for one in case.rule.page().examples}]
