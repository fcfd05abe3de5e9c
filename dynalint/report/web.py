"""Self-contained HTML pages with no network access, no fonts, and no script except the page's own."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from importlib.resources import files

from dynalint.report.style import visible

# Defence in depth: if any text from the code is not escaped, it still cannot run or load anything.
_CSP = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'"


def document(title: str, skip: str, body: Iterable[str], *, style: str = "", script: str = "") -> str:
    """Return a page with the common style. `body` contains its parts as HTML, one of which has the id "main".

    `title` is text, and `skip` is the text of the link to the main part. `style` and `script` are added unchanged.
    """
    common = (files("dynalint.report") / "web.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"{_CSP}; script-src 'sha256-{digest}'" if script else _CSP
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{common}{style}</style></head><body>",
        f'<a class="skip" href="#main">{escape(skip)}</a>',
        *body,
        f"{f'<script>{script}</script>' if script else ''}</body></html>",
    ]
    return "".join(f"{line}\n" for line in lines)


def escape(text: str) -> str:
    """Return one line of text, escaped for HTML."""
    return html.escape(visible(text))


def prose(text: str) -> str:
    """Return a sentence as HTML, with text in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def items(texts: Iterable[str]) -> str:
    """Return list items, which are given as HTML."""
    return "".join(f"<li>{text}</li>" for text in texts)


def tiles(named: Iterable[tuple[str, object, str]]) -> Iterator[str]:
    """Yield large figures, each given as a name, a value and a look ("good", "bad" or "")."""
    yield '<dl class="tiles">'
    for name, value, look in named:
        yield f'<div class="{look}"><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>'
    yield "</dl>"
