"""Options shared by different commands, and their conversion to settings."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dynalint.errors import UsageError
from dynalint.projects.trust import UNTRUSTED
from dynalint.report import FORMATS

if TYPE_CHECKING:
    from dynalint.config import Configuration, Settings, SettingsLayer
    from dynalint.rulebook.catalogue import KeptCatalogue

Command = TypeVar("Command", bound=Callable[..., Any])

STDIN = "-"

# The configuration keys that options set, by parameter name.
_LISTS = (
    "select", "ignore", "extend_select", "extend_ignore", "fixable", "unfixable", "exclude", "extend_exclude",
    "confirm_from",
)  # fmt: skip
_TABLES = ("per_file_ignores", "extend_per_file_ignores")
_VALUES = (
    "baseline", "output_format", "cache_dir", "jobs", "torch", "python", "device", "equivalence", "print_fix", "budget"
)  # fmt: skip


def seconds(value: object) -> float:
    """Parse a positive number of seconds, such as `60` or `60s`.

    Raises:
        BadParameter: If it is not a positive number.
    """
    with contextlib.suppress(ValueError):
        number = float(str(value).removesuffix("s"))
        if 0 < number < math.inf:
            return number
    raise click.BadParameter(f"{value} is not a positive number of seconds.")


def _codes(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(f"--{name}", multiple=True, metavar="CODES", help=text)


_SELECTION = (
    _codes("select", "Codes or prefixes to report, separated by commas, such as DYN1,DYN401. ALL selects all rules."),
    _codes("ignore", "Codes or prefixes not to report."),
    _codes("extend-select", "Codes or prefixes to report, in addition to those in the configuration."),
    _codes("extend-ignore", "Codes or prefixes not to report, in addition to those in the configuration."),
    click.option(
        "--per-file-ignores",
        multiple=True,
        metavar="PATTERN:CODE",
        help="Codes not to report in files that match a pattern, such as 'tests/**:DYN4'.",
    ),
    click.option(
        "--extend-per-file-ignores",
        multiple=True,
        metavar="PATTERN:CODE",
        help="The same as --per-file-ignores, in addition to the configuration.",
    ),
    _codes("fixable", "Codes or prefixes that `fix` can rewrite."),
    _codes("unfixable", "Codes or prefixes that `fix` does not rewrite."),
)

confirm_from = click.option(
    "--confirm-from",
    multiple=True,
    metavar="SOURCES",
    help="Where to get calls from if none are declared: tests, docs, or guesses. The default is all of them.",
)

_RUNNING = (
    click.option("--static", is_flag=True, help="Only read the source code. Do not run it."),
    click.option("--confirm", is_flag=True, help="Run code even if there is no working sandbox."),
    click.option("--python", metavar="PATH", help="The interpreter to run code with. It must have torch."),
    click.option(
        "--torch",
        metavar="VERSION",
        help='The torch release to check against, such as 2.13, or a range such as ">=2.6".',
    ),
    click.option("--device", type=click.Choice(["cpu", "cuda"]), help="The device to run code on."),
    click.option(
        "--select-roots",
        type=click.Choice(["modules", "explicit"]),
        help="Which code counts as compiled: every nn.Module, or only code that is passed to torch.compile.",
    ),
    click.option(
        "--equivalence",
        type=click.Choice(["practical", "exact"]),
        help='How closely a fix must preserve results: as a reviewer would require ("practical") or exactly ("exact").',
    ),
    confirm_from,
    click.option(
        "--budget",
        type=seconds,
        metavar="SECONDS",
        help="The maximum processor time for running code. The most important findings are confirmed first.",
    ),
    click.option(
        "--executor",
        type=click.Choice(["local", "dask"]),
        default="local",
        help="Where to run code: on this machine, or in a Dask cluster that has the same files at the same paths.",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="The address of the Dask scheduler, such as tcp://host:8786."),
    click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="The maximum number of processes."),
    click.option("--no-cache", is_flag=True, help="Do not read or write cached results."),
    click.option("--cache-dir", metavar="DIRECTORY", help="The folder for cached results."),
)

_CONFIGURATION = (
    click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="FILE|'KEY = VALUE'",
        help="A configuration file to use instead of the project's own, or a single setting in TOML. Can be repeated.",
    ),
    click.option("--isolated", is_flag=True, help="Ignore all configuration files."),
)

_FILES = (
    click.option("--exclude", multiple=True, metavar="PATTERNS", help="Files and directories to skip."),
    click.option(
        "--extend-exclude",
        multiple=True,
        metavar="PATTERNS",
        help="Files and directories to skip, in addition to those in the configuration.",
    ),
    click.option(
        "--force-exclude", is_flag=True, help="Skip excluded files even if they are named on the command line."
    ),
    click.option("--stdin-filename", metavar="NAME", help="The file name to use for standard input."),
)

_OUTPUT = (
    click.option(
        "--output-format",
        type=click.Choice(list(FORMATS)),
        help="The output format.  [default: full]",
    ),
    click.option(
        "-o",
        "--output-file",
        envvar="DYNALINT_OUTPUT_FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the findings to this file instead of standard output.",
    ),
    click.option("-e", "--exit-zero", is_flag=True, help="Exit with 0 even if there are findings."),
    click.option("--all", is_flag=True, help="Include findings in code that is rarely compiled."),
)

_KNOWN = (
    click.option(
        "--baseline",
        metavar="FILE",
        help="Only report findings that are not in this file. Create the file with --write-baseline.",
    ),
    click.option("--ignore-suppressions", is_flag=True, help="Also report findings that are silenced by comments."),
)

_TALK = (
    click.option("-q", "--quiet", is_flag=True, help="Only print findings."),
    click.option(
        "-v", "--verbose", is_flag=True, help="Show on standard error what dynalint is doing and how long it takes."
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Whether to use colour. NO_COLOR and FORCE_COLOR are also respected.",
    ),
)

_profile = click.option(
    "--profile",
    is_flag=True,
    help="Show on standard error where the processor time goes. Add --no-cache to check anew.",
)

_paths = click.argument("paths", nargs=-1, metavar="[PATHS]...")


def linting_options(command: Command) -> Command:
    """Add the options for commands that check files."""
    options = (_paths, *_SELECTION, *_RUNNING, *_OUTPUT, *_KNOWN, *_FILES, *_CONFIGURATION, *_TALK, _profile)
    return _added(command, options)


def configuration_options(command: Command) -> Command:
    """Add the options for commands that only read the configuration."""
    return _added(command, (*_CONFIGURATION, *_TALK))


def talking_options(command: Command) -> Command:
    """Add the options that control messages."""
    return _added(command, _TALK)


def note_ignored(settings: Settings, options: Mapping[str, Any]) -> None:
    """Print a note with the settings that have no effect because the project is not trusted.

    All of these settings control how code is run.
    """
    from dynalint.cli.console import note

    if settings.ignored and settings.confirm != "never" and not options["quiet"]:
        listed = ", ".join(f"{one.described} ({one.place})" for one in settings.ignored)
        note(f"{listed} {'has' if len(settings.ignored) == 1 else 'have'} no effect, {UNTRUSTED}.", options["color"])


def kept_catalogue(options: Mapping[str, Any]) -> KeptCatalogue:
    """Return the descriptions of all codes, which are stored in the user's cache folder.

    The codes are needed to read the configuration, so the configuration cannot name this folder. Only the command line
    and the environment can.
    """
    from dynalint.config import environment_layer
    from dynalint.projects.user_folders import cache_folder
    from dynalint.rulebook.catalogue import KeptCatalogue

    values = environment_layer(os.environ, Path.cwd()).values
    if options.get("no_cache") or values.get("cache") is False:
        return KeptCatalogue(None)
    named = options.get("cache_dir") or values.get("cache-dir")
    return KeptCatalogue(cache_folder() if named is None else Path.cwd() / Path(named).expanduser())


def read_configuration(options: Mapping[str, Any], known: Collection[str] | None = None) -> Configuration:
    """Return the configuration for the command-line options. `known` are all codes.

    Raises:
        UsageError: If options cannot be combined.
        ConfigError: If the configuration is invalid.
    """
    from dynalint.config import Configuration, Overrides, environment_layer, inline_layer

    directory = Path.cwd()
    if options.get("static") and options.get("confirm"):
        raise UsageError("--static and --confirm cannot be combined.")
    layers = [environment_layer(os.environ, directory)]
    file: Path | None = None
    for text in options["configs"]:
        path = directory / Path(text).expanduser()
        if path.is_file():
            if file is not None:
                raise UsageError("--config: only one configuration file is allowed.")
            file = path
        elif "=" not in text:
            raise UsageError(f"--config: no such file: {text}")
        else:
            layers.append(inline_layer(text, directory))
    if file is not None and options["isolated"]:
        raise UsageError("--config with a file and --isolated cannot be combined.")
    layers.append(options_layer(options, directory))
    overrides = Overrides(tuple(layers), file, isolated=options["isolated"])
    return Configuration(overrides, kept_catalogue(options) if known is None else known, directory)


def options_layer(options: Mapping[str, Any], directory: Path) -> SettingsLayer:
    """Return the settings given as options on the command line.

    Raises:
        ConfigError: If a value has the wrong type.
    """
    from dynalint.config import parse_layer

    values: dict[str, Any] = {}
    places: dict[str, str] = {}

    def put(key: str, value: object, place: str) -> None:
        values[key], places[key] = value, place

    for name in _LISTS:
        if options.get(name):
            put(name.replace("_", "-"), _split(options[name]), f"--{name.replace('_', '-')}")
    for name in _VALUES:
        if options.get(name) is not None:
            put(name.replace("_", "-"), options[name], f"--{name.replace('_', '-')}")
    for name, key, value in (
        ("static", "confirm", "never"),
        ("confirm", "confirm", "always"),
        ("no_cache", "cache", False),
        ("force_exclude", "force-exclude", True),
        ("unsafe_fixes", "unsafe-fixes", True),
    ):
        if options.get(name):
            put(key, value, f"--{name.replace('_', '-')}")
    if options.get("test_command"):
        put("test-command", options["test_command"], "--test")
    if options.get("select_roots"):
        put("roots", options["select_roots"], "--select-roots")
    for name in _TABLES:
        if options.get(name):
            option = f"--{name.replace('_', '-')}"
            put(name.replace("_", "-"), _pairs(options[name], option), option)
    return parse_layer(values, directory, lambda path: places[str(path[0])])


def _split(texts: Sequence[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _pairs(texts: Sequence[str], option: str) -> dict[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    for text in _split(texts):
        pattern, separator, code = text.rpartition(":")
        if not separator or not pattern or not code:
            raise UsageError(f'{option}: "{text}" does not have the form PATTERN:CODE.')
        pairs.setdefault(pattern, []).append(code)
    return pairs


def _added(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
