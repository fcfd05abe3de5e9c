"""The page: what it holds by reading it, and what a browser makes of it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dynalint.explaining import Explanation
from dynalint.explaining.html import render

MakeUp = Callable[[int], Explanation]

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


class Reader(HTMLParser):
    """Notes the tags of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(attribute)) is not None]


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
    assert page.count("goes on with") == 2
    assert "<h3>Call 7, with another batch size</h3>" in page
    assert "<strong>DYN101 branch-on-tensor.</strong>" in page
    assert "1 graph compiled for other calls" in page


PROBE = """
const frame = document.querySelector("iframe");
const view = frame.contentWindow, page = frame.contentDocument;
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function painted(colours) {
  canvas.clearRect(0, 0, 1, 1);
  for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
}
function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(element) {
  const above = [];
  for (let at = element; at; at = at.parentElement) above.unshift(view.getComputedStyle(at).backgroundColor);
  const back = luminance(painted(["white", ...above]));
  const front = luminance(painted(["white", ...above, view.getComputedStyle(element).color]));
  return (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
}
function spoken(element) { return element.getAttribute("aria-label") || element.textContent.trim(); }
for (const one of page.querySelectorAll("details")) one.open = true;
const texts = [...page.querySelectorAll("body *")].filter((one) =>
  !["SCRIPT", "STYLE"].includes(one.tagName) && one.checkVisibility() &&
  [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
const dim = texts.map((one) => [contrast(one), one.className, one.tagName, one.textContent.slice(0, 30)])
  .filter(([ratio]) => ratio < 4.5);
const card = page.querySelector(".card[data-graph='1']");
card.focus();
const lit = [...page.querySelectorAll("tr.lit")].map((row) => row.dataset.g);
const focused = page.activeElement === card;
card.blur();
document.title = "done";
document.querySelector("pre").textContent = JSON.stringify({
  texts: texts.length, dim, lit, focused, left: page.querySelectorAll("tr.lit").length,
  wide: page.documentElement.scrollWidth - view.innerWidth,
  scrolls: page.querySelector(".scroll").scrollWidth > page.querySelector(".scroll").clientWidth,
  images: page.images.length,
  paper: painted([view.getComputedStyle(page.body).backgroundColor]),
  unnamed: [...page.querySelectorAll("a, summary, [tabindex], [role=img]")].filter((one) => !spoken(one)).length,
  stops: [...page.querySelectorAll("a, summary, [tabindex]")].filter((one) => one.tabIndex >= 0).length,
});
"""


def browse(page: str, folder: Path, width: int, *flags: str) -> dict[str, Any]:
    """Open a page in a frame of some width, and return what the probe saw."""
    if BROWSER is None:
        pytest.skip("no chromium on this machine")
    frame = f'<iframe width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>'
    harness = folder / "harness.html"
    probe = f"<script>onload = () => {{{PROBE}}}</script>"
    harness.write_text(f"<!doctype html><meta charset=utf-8><body>{frame}<pre></pre>{probe}</body>", encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    quiet = "--no-first-run --disable-background-networking --disable-component-update --disable-sync --disable-quic"
    small = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1500,1000"
    done = subprocess.run(
        [BROWSER, *small.split(), *quiet.split(), profile, *flags, "--dump-dom", harness.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    match = re.search(r"<pre>(\{.*?\})</pre>", done.stdout, re.DOTALL)
    assert match is not None, done.stdout[-2000:] + done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(html.unescape(match[1]))
    return seen


@pytest.mark.may_skip
@pytest.mark.parametrize("flags", [(), ("--force-dark-mode",)], ids=["light", "dark"])
def test_in_a_browser(made_up: MakeUp, tmp_path: Path, flags: tuple[str, ...]) -> None:
    seen = browse(render(made_up(12)), tmp_path, 1300, *flags)
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
    seen = browse(render(made_up(count)), tmp_path, width)
    assert seen["wide"] <= 0
    assert seen["scrolls"]
    assert seen["dim"] == []
