"""Output formats, which are pure functions from findings to text.

Each format has its own module, imported when needed.
"""

from __future__ import annotations

from importlib import import_module

from dynalint.report.model import Report
from dynalint.report.runners import in_text
from dynalint.report.style import Style

__all__ = ["FOLDING", "FORMATS", "FOR_PEOPLE", "WITH_FIXES", "Report", "Style", "render", "render_statistics"]

FORMATS = {
    "full": ("full", "render"),
    "concise": ("concise", "render"),
    "grouped": ("grouped", "render"),
    "json": ("json", "render"),
    "json-lines": ("json", "render_lines"),
    "sarif": ("sarif", "render"),
    "github": ("github", "render"),
    "gitlab": ("gitlab", "render"),
    "junit": ("junit", "render"),
    "markdown": ("markdown", "render"),
    "html": ("html", "render"),
}


FOR_PEOPLE = ("full", "concise", "grouped", "markdown", "html")
FOLDING = (*FOR_PEOPLE, "github")
"""The formats that count findings in code that is rarely compiled, but do not list them."""
WITH_FIXES = ("json", "json-lines", "sarif", "html")
"""The formats that always include each finding's fix. The others only show it on request, or not at all."""


def render(form: str, report: Report, style: Style) -> str:
    """Return the report in format `form`, one of `FORMATS`. Only human-readable formats use `style`.

    If a CI runner reads the report, it finds no workflow commands in it, except in the format "github".
    """
    module, function = FORMATS[form]
    text: str = getattr(import_module(f"dynalint.report.{module}"), function)(report, style)
    return in_text(text) if form in FOR_PEOPLE else text


def render_statistics(form: str, report: Report, style: Style) -> str:
    """Return the number of findings by rule, as JSON if `form` is a JSON format, and otherwise as a table."""
    from dynalint.report import statistics

    return statistics.render_json(report) if form.startswith("json") else statistics.render(report, style)
