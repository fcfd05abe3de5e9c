"""Start the worker in an interpreter without dynalint: `python path/to/worker`.

The folder is loaded as a package with another name, and the entry that Python added for it is removed from the search
path, so that no module here can hide one of the user's modules.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

NAME = "_dynalint_worker"


def main() -> None:
    """Load the package next to this file and serve requests."""
    if sys.version_info < (3, 10):  # noqa: UP036 - the user's interpreter may have any version
        raise SystemExit(f"Python 3.10 or newer is required, but this is {sys.version.split()[0]}")
    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != folder]
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder} does not contain a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"{NAME}.process.server").serve()


main()
