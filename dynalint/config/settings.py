"""All options with their defaults, and the settings in effect."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dynalint.config import values as v
from dynalint.config.selection import RuleSelection, select
from dynalint.config.values import Glob, Selector, Type
from dynalint.projects.trust import RequestedSetting
from dynalint.projects.user_folders import cache_folder
from dynalint.report import FORMATS

# Directories that contain no project code: ruff's list, and dynalint's own cache.
DEFAULT_EXCLUDE = (
    ".bzr", ".direnv", ".dynalint_cache", ".eggs", ".git", ".git-rewrite", ".hg", ".ipynb_checkpoints", ".mypy_cache",
    ".nox", ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode",
    "__pycache__", "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip


Test = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Option:
    """A key in `[tool.dynalint]`.

    If `joins` is true, the values from all layers are joined. Otherwise, the last is used.

    `reserved` is set for keys that concern the user's machine. It says whether a value would start programs, weaken the
    sandbox, or choose folders to write to. If a value like this is in a project's own files, it only takes effect if
    the user trusts the project.
    """

    key: str
    parse: Type[Any]
    doc: str
    joins: bool = False
    reserved: Test | None = None


def _option(
    default: Any,
    parse: Type[Any],
    doc: str,
    *,
    joins: bool = False,
    reserved: Test | None = None,
    factory: Callable[[], Any] | None = None,
) -> Any:
    """Return a field of `Settings` for an option. Its default is `default`, or made by `factory`."""
    about = {"parse": parse, "doc": doc, "joins": joins, "reserved": reserved}
    return field(default=default, metadata=about) if factory is None else field(default_factory=factory, metadata=about)


def _always(_: object) -> bool:
    return True


# The limits, in seconds and MiB of memory, up to which a project can set values without being trusted.
_MOST_SECONDS, _MOST_MEMORY = 600.0, 4096


def _available_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Settings:
    """The settings in effect for the files in a directory.

    `root` is the directory of the configuration file, or the working directory if there is none. `config_file` is the
    file itself. All paths are absolute. `origins` maps each key that was set to where it was set. `selection` is the
    set of rules that the keys with codes select. `asked` are the reserved settings in the project's own files, which
    take effect if the project is `trusted`.
    """

    root: Path
    config_file: Path | None = None
    selection: RuleSelection = field(default_factory=RuleSelection)
    origins: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[RequestedSetting, ...] = ()
    trusted: bool = False

    include: tuple[Path, ...] = _option((), v.array(v.path), "The paths to check if none are specified.")
    exclude: tuple[Glob, ...] = _option(
        tuple(Glob(Path(), name) for name in DEFAULT_EXCLUDE),
        v.array(v.glob),
        "Patterns for files and directories to skip, as in a .gitignore file. Replaces the default list.",
    )
    extend_exclude: tuple[Glob, ...] = _option(
        (), v.array(v.glob), "Patterns to skip in addition to `exclude`.", joins=True
    )
    force_exclude: bool = _option(
        False, v.boolean, "Whether to skip excluded files even if they are named on the command line."
    )
    respect_gitignore: bool = _option(True, v.boolean, "Whether to skip files that git ignores.")

    select: tuple[Selector, ...] = _option((Selector("ALL"),), v.array(v.selector), "Codes or prefixes to report.")
    ignore: tuple[Selector, ...] = _option((), v.array(v.selector), "Codes or prefixes not to report.", joins=True)
    extend_select: tuple[Selector, ...] = _option(
        (), v.array(v.selector), "Codes or prefixes to report in addition to `select`.", joins=True
    )
    extend_ignore: tuple[Selector, ...] = _option(
        (), v.array(v.selector), "Codes or prefixes not to report in addition to `ignore`.", joins=True
    )
    per_file_ignores: tuple[tuple[Glob, tuple[Selector, ...]], ...] = _option(
        (),
        v.per_file_ignores,
        'Codes not to report in files that match a pattern. "!pattern" stands for all other files.',
    )
    extend_per_file_ignores: tuple[tuple[Glob, tuple[Selector, ...]], ...] = _option(
        (), v.per_file_ignores, "Patterns and codes in addition to `per-file-ignores`.", joins=True
    )
    fixable: tuple[Selector, ...] = _option(
        (Selector("ALL"),), v.array(v.selector), "Codes or prefixes that `fix` can rewrite."
    )
    unfixable: tuple[Selector, ...] = _option(
        (), v.array(v.selector), "Codes or prefixes that `fix` does not rewrite.", joins=True
    )

    roots: str | tuple[str, ...] = _option(
        "modules",
        v.roots,
        'Which code counts as compiled: every nn.Module ("modules"), only code that is passed to torch.compile '
        '("explicit"), or a list of functions and classes.',
    )
    torch: str | None = _option(
        None,
        v.releases,
        "The torch releases to check against. The default is the installed release, or the newest known release.",
    )
    confirm: Literal["auto", "always", "never"] = _option(
        "auto",
        v.choice("auto", "always", "never"),
        "Whether to confirm findings by running code: if there is a sandbox, always, or never.",
        reserved=lambda value: value == "always",
    )
    python: Path | None = _option(
        None,
        v.interpreter,
        "The interpreter to run code with. The default is the first of these that has torch: the activated "
        "environment, dynalint's own environment, or a .venv in the project that git does not track.",
        reserved=_always,
    )
    device: Literal["cpu", "cuda"] = _option(
        "cpu", v.choice("cpu", "cuda"), "The device to run code on.", reserved=lambda value: value != "cpu"
    )
    timeout: float = _option(
        60.0,
        v.seconds,
        "The time limit in seconds for one model or function, not counting time spent waiting for a processor.",
        reserved=lambda value: value > _MOST_SECONDS,
    )
    budget: float | None = _option(
        None,
        v.seconds,
        "The maximum processor time in seconds for running code. The default is 240 for each file that has "
        "findings, once for confirming them and once for verifying their fixes.",
    )
    memory: int = _option(
        4096,
        v.positive,
        "The memory limit in MiB for one model or function.",
        reserved=lambda value: value > _MOST_MEMORY,
    )
    confirm_from: tuple[str, ...] = _option(
        ("tests", "docs", "guesses"),
        v.array(v.choice("tests", "docs", "guesses")),
        "Where to get calls from if none are declared: the project's tests, the code in its docstrings, READMEs, "
        "examples, and `__main__` blocks, or arguments that dynalint works out.",
    )
    examples: Mapping[str, str] = _option(
        None,
        v.table(v.target, v.target),
        "Maps models and functions to functions that return (callable, args) or (callable, args, kwargs).",
        factory=dict,
    )

    print_fix: Literal["guard", "remove"] = _option(
        "guard",
        v.choice("guard", "remove"),
        "How to fix a print, a log call, or a warning: skip it while compiling, or remove it.",
    )
    equivalence: Literal["practical", "exact"] = _option(
        "practical",
        v.choice("practical", "exact"),
        'How closely a fix must preserve results: as a reviewer would require ("practical") or exactly ("exact").',
    )
    test_command: str | None = _option(
        None,
        v.string,
        "The command that runs the project's tests, such as `pytest -q`. `fix` drops fixes that make a test fail.",
        reserved=_always,
    )
    unsafe_fixes: bool = _option(False, v.boolean, "Whether `fix` also applies fixes that change behaviour by design.")

    baseline: Path | None = _option(
        None, v.path, "A file that lists findings not to report. `--write-baseline` creates it."
    )

    output_format: str = _option("full", v.choice(*FORMATS), "The output format.")
    cache_dir: Path | None = _option(
        None,
        v.path,
        "The folder for findings, verdicts, and evidence. By default, it is in your own cache folder.",
        reserved=_always,
    )
    cache: bool = _option(True, v.boolean, "Whether to cache results between runs.")
    jobs: int = _option(
        None,
        v.positive,
        "The maximum number of processes.",
        factory=_available_processors,
        reserved=lambda value: value > _available_processors(),
    )

    def value(self, key: str) -> Any:
        """Return the value of option `key`."""
        return getattr(self, key.replace("-", "_"))

    @property
    def ignored(self) -> tuple[RequestedSetting, ...]:
        """The project's reserved settings that have no effect because the project is not trusted."""
        return () if self.trusted else self.asked

    @property
    def cache_directory(self) -> Path | None:
        """The cache directory, or None if caching is disabled."""
        return self.cache_location if self.cache else None

    @property
    def cache_location(self) -> Path | None:
        """The location of the cache, which may not exist yet, or None if the user has no home directory."""
        folder = cache_folder()
        if self.cache_dir is not None or folder is None:
            return self.cache_dir
        # The whole path is hashed because different projects can have the same name. Links are resolved so that a
        # project has only one cache.
        real = os.path.realpath(self.root)
        return folder / f"{self.root.name or 'root'}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"


OPTIONS: Mapping[str, Option] = {
    held.name.replace("_", "-"): Option(held.name.replace("_", "-"), **held.metadata)
    for held in dataclasses.fields(Settings)
    if "parse" in held.metadata
}

# A layer that sets this key discards earlier layers' values for the listed keys (see `select`).
_RESETS: Mapping[str, Sequence[str]] = {
    "select": ("ignore", "extend-select", "extend-ignore"),
    "fixable": ("unfixable",),
}


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """Parsed values from one source (a file, the environment or the command line), and where each was written."""

    values: Mapping[str, Any]
    places: Mapping[str, str]


def split_reserved(layer: SettingsLayer) -> tuple[SettingsLayer, list[RequestedSetting]]:
    """Split a layer into settings that anyone can set and settings that only the user can set."""
    asked = [
        RequestedSetting(key, value, layer.places[key])
        for key, value in layer.values.items()
        if (reserved := OPTIONS[key].reserved) is not None and reserved(value)
    ]
    left = {key: value for key, value in layer.values.items() if key not in {one.key for one in asked}}
    return SettingsLayer(left, layer.places), asked


def about_machine(layer: SettingsLayer) -> SettingsLayer:
    """Return a layer's settings that concern the user's machine rather than the project."""
    return SettingsLayer({key: value for key, value in layer.values.items() if OPTIONS[key].reserved}, layer.places)


def resolve(layers: Sequence[SettingsLayer], known: Collection[str], root: Path, config_file: Path | None) -> Settings:
    """Merge layers in increasing order of precedence. `known` are the codes of the installed rules.

    Raises:
        ConfigError: If a selector matches no code.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for key in layer.values:
            for other in _RESETS.get(key, ()):
                merged.pop(other, None)
                origins.pop(other, None)
        for key, value in layer.values.items():
            if OPTIONS[key].joins and key in merged:
                merged[key] = (*merged[key], *value)
                origins[key] = f"{origins[key]}, {layer.places[key]}"
            else:
                merged[key] = value
                origins[key] = layer.places[key]
    selection = select([layer.values for layer in layers], known, Settings.select)
    arguments = {key.replace("-", "_"): value for key, value in merged.items()}
    arguments.setdefault("exclude", tuple(Glob(root, name) for name in DEFAULT_EXCLUDE))
    return Settings(root=root, config_file=config_file, selection=selection, origins=origins, **arguments)
