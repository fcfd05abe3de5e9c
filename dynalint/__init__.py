"""A linter for `torch.compile`: finds what breaks graphs, confirms it with Dynamo, rewrites it.

findings = dynalint.check(["src"], static=True)
findings = dynalint.check_source("model.py", text)
report = dynalint.explain(model, *args, **kwargs)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.api import check, check_source
    from dynalint.errors import ConfigError, DynalintError, UsageError
    from dynalint.explained import Report, explain
    from dynalint.findings import Edit, Evidence, Finding, Fix

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "DynalintError",
    "Edit",
    "Evidence",
    "Finding",
    "Fix",
    "Report",
    "UsageError",
    "__version__",
    "check",
    "check_source",
    "explain",
]

_HOMES = {
    "check": "dynalint.api",
    "check_source": "dynalint.api",
    "explain": "dynalint.explained",
    "Report": "dynalint.explained",
    "ConfigError": "dynalint.errors",
    "DynalintError": "dynalint.errors",
    "UsageError": "dynalint.errors",
    "Edit": "dynalint.findings",
    "Evidence": "dynalint.findings",
    "Finding": "dynalint.findings",
    "Fix": "dynalint.findings",
}


def __getattr__(name: str) -> object:
    # `dynalint --version` and every worker import this package: what it offers is loaded when it is asked for.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
