"""The page: what it holds by reading it, and what a browser makes of it."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path

import pytest

from dynalint.explaining import Explanation
from dynalint.explaining.html import render
from tests.browser import Reader, browse

MakeUp = Callable[[int], Explanation]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_page_loads_nothing(made_up: MakeUp, count: int) -> None:
    page = render(made_up(count))
    reader = Reader(page)
    assert all(value.startswith("#") for value in reader.values("href"))
    assert reader.values("src") == []
    assert "url(" not in page
    assert "@import" not in page
    assert not {tag for tag, _ in reader.tags} & {"link", "img", "iframe", "object"}
    assert "default-src 'none'" in html.unescape(page)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_every_link_leads_somewhere_and_no_id_is_there_twice(made_up: MakeUp, count: int) -> None:
    reader = Reader(render(made_up(count)))
    ids = reader.values("id")
    assert len(ids) == len(set(ids))
    assert {value.removeprefix("#") for value in reader.values("href")} <= set(ids)
    assert {f"graph-{number}" for number in range(1, count + 1)} <= set(ids)
    assert {f"break-{number}" for number in range(1, count)} <= set(ids)


def test_text_of_the_user_stays_text(made_up: MakeUp, hostile: str) -> None:
    page = render(made_up(3))
    assert hostile not in page
    assert html.escape(hostile) in page


def test_graphs_breaks_and_costs_are_told(made_up: MakeUp) -> None:
    page = render(made_up(3))
    assert "passes on 2 tensors, 4 KiB" in page
    assert page.count("continues") == 2
    assert "<h3>Call 7, with another batch size</h3>" in page
    assert "<strong>DYN101 branch-on-tensor.</strong>" in page
    assert "1 graph compiled for other calls" in page


SPECIAL = """
const card = page.querySelector(".card[data-graph='1']");
card.focus();
const lit = [...page.querySelectorAll("tr.lit")].map((row) => row.dataset.g);
const focused = page.activeElement === card;
card.blur();
const scroll = page.querySelector(".scroll");
return {
  lit, focused, left: page.querySelectorAll("tr.lit").length, scrolls: scroll.scrollWidth > scroll.clientWidth,
};
"""


@pytest.mark.may_skip
@pytest.mark.parametrize("flags", [(), ("--force-dark-mode",)], ids=["light", "dark"])
def test_in_a_browser(made_up: MakeUp, tmp_path: Path, flags: tuple[str, ...]) -> None:
    seen = browse(render(made_up(12)), tmp_path, 1300, *flags, special=SPECIAL)
    assert seen["texts"] > 200
    assert seen["dim"] == []
    assert (sum(seen["paper"]) < 150) == bool(flags)
    # A graph that has the focus shows its lines, as long as it has it.
    assert seen["focused"]
    assert set(seen["lit"]) == {"1"}
    assert seen["left"] == 0
    assert seen["unnamed"] == 0
    assert seen["stops"] > 40
    # Nothing that the user's text says came to life.
    assert seen["images"] == 0


@pytest.mark.may_skip
@pytest.mark.parametrize(("width", "count"), [(360, 12), (1300, 40), (1300, 1)])
def test_only_the_source_scrolls_sideways(made_up: MakeUp, tmp_path: Path, width: int, count: int) -> None:
    seen = browse(render(made_up(count)), tmp_path, width, special=SPECIAL)
    assert seen["wide"] <= 0
    assert seen["scrolls"]
    assert seen["dim"] == []
