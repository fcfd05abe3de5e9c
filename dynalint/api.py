"""The Python API: `dynalint.check` and `dynalint.check_source`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalint.errors import DynalintError
from dynalint.findings import Finding

if TYPE_CHECKING:
    from dynalint.config import Configuration
    from dynalint.engine import Checked


def check(
    paths: Iterable[str | os.PathLike[str]] = (),
    *,
    static: bool | None = None,
    settings: dict[str, Any] | None = None,
    isolated: bool = False,
) -> list[Finding]:
    """Check files and directories as `dynalint check` does, and return the sorted findings.

    If `paths` is empty, the paths that the configuration includes are checked, or the working directory if it includes
    none. If `static` is True, code is never run. If it is False, code is run even without a sandbox. If it is None, the
    configuration decides. `settings` are values for configuration keys, such as `{"select": ["DYN1"]}`. If `isolated`
    is true, no configuration files are read. Refuted findings are not returned.

    Raises:
        UsageError: If a path does not exist.
        ConfigError: If the configuration is invalid.
        DynalintError: If dynalint failed on a file.
    """
    from dynalint import engine
    from dynalint.projects.workspace import open_workspace

    directory = Path.cwd()
    configuration = _configuration(directory, static=static, settings=settings, isolated=isolated)
    workspace, found = open_workspace([Path(path) for path in paths], configuration, directory)
    return _findings(engine.check(workspace), found.failures)


def check_source(
    path: str | os.PathLike[str],
    text: str,
    *,
    static: bool | None = True,
    settings: dict[str, Any] | None = None,
    isolated: bool = False,
) -> list[Finding]:
    """Check `text` as if it were in the file `path`, which does not have to exist, and return the sorted findings.

    Imported modules are read from disk. See `check` for the other arguments.

    Raises:
        ConfigError: If the configuration is invalid.
        DynalintError: If dynalint failed on the text.
    """
    from dynalint import engine
    from dynalint.projects.workspace import text_workspace

    directory = Path.cwd()
    configuration = _configuration(directory, static=static, settings=settings, isolated=isolated)
    workspace = text_workspace(Path(path), text.encode("utf-8"), configuration, directory)
    return _findings(engine.check(workspace), ())


def _configuration(
    directory: Path, *, static: bool | None, settings: dict[str, Any] | None, isolated: bool
) -> Configuration:
    from dynalint.config import Configuration, Overrides, environment_layer, parse_layer
    from dynalint.rulebook.catalogue import known_codes

    values = dict(settings or {})
    if static is not None:
        values["confirm"] = "never" if static else "always"
    layers = (environment_layer(os.environ, directory), parse_layer(values, directory, lambda _: "settings"))
    return Configuration(Overrides(layers, isolated=isolated), known_codes(), directory)


def _findings(checked: Checked, failures: Iterable[str]) -> list[Finding]:
    if checked.interrupted:
        raise KeyboardInterrupt
    findings = list(checked.with_fixes(checked.reported()))
    failed = [*failures, *checked.failures, *checked.failures_in_fixes]
    if failed:
        raise DynalintError("; ".join(failed))
    return findings
