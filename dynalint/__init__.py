"""A linter for `torch.compile`: it finds the lines that break graphs, confirms them with Dynamo, and rewrites them.

findings = dynalint.check(["src"], static=True)
findings = dynalint.check_source("model.py", text)
report = dynalint.explain(model, *args, **kwargs)
"""

import sys

if (
    sys.argv[:1] == ["-m"]
    and ("-m dynalint" in " ".join(sys.orig_argv) or "-mdynalint" in sys.orig_argv)
    and not sys.flags.isolated
    and not getattr(sys.flags, "safe_path", False)
):
    # `python -m dynalint` puts the working directory first on the module search path. This directory contains the code
    # to check, so nothing must be loaded from there, such as a `typing.py` or a package's entry points. Imports that
    # Python makes before this line cannot be prevented, so the documentation recommends the `dynalint` command, which
    # never searches there.
    del sys.path[0]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.api import check, check_source
    from dynalint.errors import ConfigError, DynalintError, UsageError
    from dynalint.explained import ExplainReport, explain
    from dynalint.findings import Edit, Evidence, Finding, Fix

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "DynalintError",
    "Edit",
    "Evidence",
    "ExplainReport",
    "Finding",
    "Fix",
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
    "ExplainReport": "dynalint.explained",
    "ConfigError": "dynalint.errors",
    "DynalintError": "dynalint.errors",
    "UsageError": "dynalint.errors",
    "Edit": "dynalint.findings",
    "Evidence": "dynalint.findings",
    "Finding": "dynalint.findings",
    "Fix": "dynalint.findings",
}


def __getattr__(name: str) -> object:
    # `dynalint --version` and every worker import this package, so its contents are loaded on demand.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
