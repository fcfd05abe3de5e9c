"""What a browser makes of a page, and what it holds by reading it; shared by the tests of all pages."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

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


_PROBE = """
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
const special = (() => { %s })();
for (const one of page.querySelectorAll("details")) one.open = true;
const texts = [...page.querySelectorAll("body *")].filter((one) =>
  !["SCRIPT", "STYLE"].includes(one.tagName) && one.checkVisibility() &&
  [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
const dim = texts.map((one) => [contrast(one), one.className, one.tagName, one.textContent.slice(0, 30)])
  .filter(([ratio]) => ratio < 4.5);
document.title = "done";
document.querySelector("pre").textContent = JSON.stringify({
  ...special, texts: texts.length, dim,
  wide: page.documentElement.scrollWidth - view.innerWidth,
  images: page.images.length,
  paper: painted([view.getComputedStyle(page.body).backgroundColor]),
  unnamed: [...page.querySelectorAll("a, summary, [tabindex], [role=img]")].filter((one) => !spoken(one)).length,
  stops: [...page.querySelectorAll("a, summary, [tabindex]")].filter((one) => one.tabIndex >= 0).length,
});
"""


def browse(page: str, folder: Path, width: int, *flags: str, special: str = "return {};") -> dict[str, Any]:
    """Open a page in a frame of some width, and return what the probe saw.

    This is for every text its contrast (`dim` lists those that are too low), how far the page is too `wide`, the
    `stops` of the keyboard and those `unnamed`, and what the body `special` of a function returns, run before any
    `<details>` is opened.
    """
    if BROWSER is None:
        pytest.skip("no chromium on this machine")
    frame = f'<iframe width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>'
    harness = folder / "harness.html"
    probe = f"<script>onload = () => {{{_PROBE % special}}}</script>"
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
