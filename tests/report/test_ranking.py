"""What costs most: the levels, their order, the words, and what the summary names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dynalint.findings import Cost, Evidence, Finding
from dynalint.report import Report, Style, render
from dynalint.report.ranking import LEVELS, because, level_of, most_expensive, ranked

Make = Callable[..., Finding]


def level(finding: Finding) -> str:
    return LEVELS[level_of(finding)].title


@pytest.fixture
def dear(make: Make) -> list[Finding]:
    """One finding of each level, the dearest first, each on its own line of its own function."""
    fields: list[dict[str, object]] = [
        {"category": "miscompile"},
        {"cost": Cost("Model.forward", "Model.forward", reads=True)},
        {"cost": Cost("Model.forward", "Model.forward")},
        {"cost": Cost(gives_up="Layer.forward")},
        {"category": "recompile"},
        {"cost": Cost(reads=True)},
        {},
        {"category": "advice", "severity": "info", "cost": Cost("Model.forward")},
    ]
    return [make(10 - number, function=f"f{number}", **one) for number, one in enumerate(fields)]


def test_every_level_has_its_findings(dear: list[Finding]) -> None:
    assert [level_of(one) for one in dear] == list(range(len(LEVELS)))
    assert ranked(reversed(dear)) == dear


def test_what_running_showed_counts(make: Make) -> None:
    seen = Evidence("confirmed", "It breaks.", "GB0059", "2.13.0", "breaks", 0)
    assert level(make(evidence=replace(seen, effect="split"))) == "Other graph breaks and recompilations"
    given_up = make(evidence=replace(seen, effect="frame"))
    assert level(given_up) == "Functions that Dynamo gives up on"
    assert because(given_up) == "makes Dynamo give up on the function"
    assert because(make(evidence=replace(seen, effect="rest"))) == "makes Dynamo give up on the rest of the function"
    # That one target only splits the graph says nothing about the loop of another one around it.
    looped = make(cost=Cost("Model.forward", "Model.forward"), evidence=replace(seen, effect="split"))
    assert level(looped) == "Graph breaks in a loop"


def test_what_was_refuted_or_is_rarely_compiled_costs_nothing(make: Make) -> None:
    loop = Cost("Model.forward", reads=True)
    for one in (make(cost=loop, evidence=Evidence("refuted")), make(cost=loop, doubt="nobody compiles it")):
        assert level(one) == "Notes and advice"


def test_confirmed_findings_come_first_in_their_level(make: Make) -> None:
    found = [
        make(1, evidence=Evidence("unreached")),
        make(2),
        make(3, evidence=Evidence("confirmed")),
        make(4, evidence=Evidence("unconfirmed")),
    ]
    assert [one.line for one in ranked(found)] == [3, 2, 4, 1]


def test_the_reasons_in_words(dear: list[Finding]) -> None:
    assert [because(one) for one in dear] == [
        "may give different results from eager code",
        "waits for the GPU in each iteration of a loop in `Model.forward`; makes Dynamo give up on `Model.forward`",
        "breaks the graph in each iteration of a loop in `Model.forward`; makes Dynamo give up on `Model.forward`",
        "makes Dynamo give up on `Layer.forward`",
        "recompiles on every call",
        "waits for the GPU on each call",
        "",
        "",
    ]


def test_the_dearest_are_in_three_functions(dear: list[Finding], make: Make) -> None:
    assert most_expensive(dear) == (dear[:3], 3)
    again = replace(dear[1], line=1)
    assert most_expensive([*dear, again]) == ([dear[0], again, dear[2]], 4)


@pytest.mark.parametrize("cost", [Cost(), Cost("Model.forward", reads=True)])
def test_none_is_named_where_none_costs_more(make: Make, cost: Cost) -> None:
    alike = [make(line, function=f"f{line}", cost=cost) for line in range(1, 10)]
    assert most_expensive(alike) == ([], 0)
    assert most_expensive([]) == ([], 0)


def test_nothing_is_said_to_cost_more_than_advice_alone(make: Make) -> None:
    assert most_expensive([make(1), make(2), make(3, category="advice")]) == ([], 0)


def test_the_summary_names_the_dearest(dear: list[Finding]) -> None:
    text = render("full", Report(dear[::-1]), Style())
    assert text.endswith(
        "Found 8 findings.\nKnown to cost the most:\n  model.py:10:12: DYN101 may give different results from eager "
        "code\n  model.py:9:12: DYN101 waits for the GPU in each iteration of a loop in `Model.forward`; makes Dynamo "
        "give up on `Model.forward`\n  model.py:8:12: DYN101 breaks the graph in each iteration of a loop in "
        "`Model.forward`; makes Dynamo give up on `Model.forward`\n"
    )
    alike = [replace(dear[1], line=20 + number, function=f"g{number}") for number in range(9)]
    assert "Known to cost the most (3 of 11 like them):\n" in render("full", Report([*dear, *alike]), Style())
    assert "Known to cost" not in render("full", Report(dear[:5]), Style())
    assert "Known to cost" not in render("full", Report(dear, quiet=True), Style())
    for form in ("concise", "grouped", "markdown"):
        assert "Known to cost" not in render(form, Report(dear), Style())
