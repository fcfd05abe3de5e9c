"""Have a Python process take part in `dynalint trace`, then run the sitecustomize that this one hides.

Python imports it at its start, for `dynalint trace` puts this folder in front of PYTHONPATH. Whatever Python that is:
nothing here may fail, print, or need more than the standard library.
"""

import os
import sys


def _take_part() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    # Found once is enough: the program sees the search path that it would have had.
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


try:
    _take_part()
except Exception:  # noqa: BLE001, S110 - the program must run as though this was not here
    pass

# The hidden one takes this one's place, or there is none, and `site` is used to that.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
