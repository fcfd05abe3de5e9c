"""Make a Python process take part in `dynalint trace`, or in a test run of `dynalint fix --test`.

Python imports this file at startup because its folder comes first in PYTHONPATH. Afterwards, the sitecustomize module
that it hides is imported. This file runs under any version of Python, so it must not fail or print anything, and may
only use the standard library.
"""

import os
import sys


def _take_part() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    # Remove this folder from the search path, so that the program sees its usual search path.
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != here]
    session = os.environ.get("DYNALINT_TRACE")
    if not session or sys.version_info < (3, 10):
        return
    from importlib import import_module, util

    name, folder = "_dynalint_worker", os.path.join(os.path.dirname(here), "worker")
    spec = util.spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        return
    package = util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    import_module(name + ".tracing.agent").take_part(session)


def _import_the_copy() -> None:
    """Make imports of the project's modules use the copy being tested, no matter how the project is installed."""
    name = os.environ.get("DYNALINT_SUITE")
    if not name:
        return
    import json

    with open(name, encoding="utf-8") as file:
        settings = json.load(file)
    root, copy = settings["root"] + os.sep, settings["copy"] + os.sep
    for place, entry in enumerate(sys.path):
        moved = copy + (os.path.realpath(entry) + os.sep)[len(root) :]
        if (os.path.realpath(entry) + os.sep).startswith(root) and os.path.isdir(moved):
            sys.path[place] = moved.rstrip(os.sep)
    # These entries come after the standard library, because one of the project's modules may have the same name as a
    # standard module.
    installed = [place for place, entry in enumerate(sys.path) if "site-packages" in entry or "dist-packages" in entry]
    first = installed[0] if installed else len(sys.path)
    sys.path[first:first] = [entry for entry in settings["search"] if entry not in sys.path[:first]]
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "plugin"))


try:
    _import_the_copy()
    _take_part()
except Exception:  # noqa: BLE001, S110 - the program must run as if this file did not exist
    pass

# The hidden sitecustomize module is imported next. If there is none, `site` ignores the error.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
