"""`dynalint config`, which shows the settings in effect, where they were set, and which settings exist."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dynalint.cli.options import configuration_options
from dynalint.errors import UsageError
from dynalint.projects.trust import UNTRUSTED

if TYPE_CHECKING:
    from pathlib import Path

    from dynalint.config import Settings
    from dynalint.linting.roots import Suggestions

_EPILOG = """\b
Examples:
  dynalint config show                           show the settings for the working directory
  dynalint config show src/model.py              show the settings for one file
  dynalint config show --output-format json
  dynalint config suggest                        suggest names for the `roots` setting
  dynalint config schema > dynalint.schema.json  write a schema for editors
"""


@click.group(epilog=_EPILOG, no_args_is_help=True)
def config() -> None:
    """Show the current settings and all available settings."""


@config.command(epilog=_EPILOG)
@click.argument("path", required=False)
@configuration_options
@click.option("--output-format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(path: str | None, form: str, **options: Any) -> None:
    """Show the settings that apply to PATH, and where each of them was set.

    PATH is a file or directory. The default is the working directory. Settings that are not set are shown with their
    default values.
    """
    from pathlib import Path

    from dynalint.cli.console import write
    from dynalint.cli.options import read_configuration
    from dynalint.config import show_path
    from dynalint.projects.workspace import absolute
    from dynalint.report.json import document
    from dynalint.report.runners import in_text

    directory = Path.cwd()
    configuration = read_configuration(options)
    place = absolute(Path(path), directory) if path else directory
    if not place.exists():
        raise UsageError(f"{path}: no such file or directory.")
    settings = configuration.for_directory(place) if place.is_dir() else configuration.for_file(place)
    enabled = settings.selection.enabled if place.is_dir() else settings.selection.enabled_for(place)
    shown = show_path(place, directory)
    file = show_path(settings.config_file, directory) if settings.config_file else None
    if form == "json":
        write(document(_record(settings, shown, file, enabled)))
    else:
        write(in_text(_text(settings, shown, file, enabled)))


@config.command()
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@configuration_options
def suggest(paths: tuple[str, ...], **options: Any) -> None:
    """Suggest a value for the `roots` setting.

    The suggestion contains the models and functions that are likely to be compiled on their own. dynalint looks in
    PATHS, as `dynalint check` does, for code that is passed to torch.compile, models that are built, and models that
    no other model builds. It does not run or write anything.
    """
    from pathlib import Path

    from dynalint.analysis import AnalysisOptions, analyze
    from dynalint.cli.console import write
    from dynalint.cli.options import read_configuration
    from dynalint.linting.roots import suggestions
    from dynalint.projects.workspace import open_workspace, search_folders
    from dynalint.report.runners import in_text

    workspace, _ = open_workspace([Path(path) for path in paths], read_configuration(options), Path.cwd())
    settings = workspace.settings
    analysis = analyze(workspace.files, AnalysisOptions(search=search_folders(settings)))
    in_table = settings.config_file is None or settings.config_file.name == "pyproject.toml"
    write(in_text(_suggested(suggestions(analysis, workspace.shown), in_table=in_table)))


def _suggested(found: Suggestions, *, in_table: bool) -> str:
    """Return suggestions as TOML, with the reasons as comments."""
    from dynalint.report.style import visible

    left_out = ", ".join(f"{number} {reason}" for reason, number in found.left_out.items() if number)
    remark = f"# Omitted: {left_out}.\n" if left_out else ""
    if not found.roots:
        return f"# No names were found for `roots`.\n{remark}"
    entries = {_toml(name): visible(reason) for name, reason in found.roots.items()}
    width = min(max(map(len, entries)), 60)
    body = "".join(f"    {name + ',':<{width + 1}}  # {reason}\n" for name, reason in entries.items())
    table = "[tool.dynalint]\n" if in_table else ""
    return (
        f"# Keep the names that you compile. Only these and the code that they call will be checked.\n{table}roots = "
        f"[\n{body}]\n{remark}"
    )


@config.command()
def schema() -> None:
    """Print a JSON Schema for the settings. Editors can use it to complete and validate them.

    The schema contains the codes of all installed rules, including those in other rule packs.
    """
    from dynalint.cli.console import write
    from dynalint.config.schema import schema
    from dynalint.rulebook.catalogue import known_codes

    write(json.dumps(schema(known_codes()), indent=2) + "\n")


def _record(settings: Settings, shown: str, file: str | None, enabled: frozenset[str]) -> dict[str, Any]:
    from dynalint.config import OPTIONS
    from dynalint.projects.environments import chosen_interpreter, installed_torch

    found = chosen_interpreter(settings)
    return {
        "path": shown,
        "config_file": file,
        "trusted": settings.trusted,
        "interpreter": {"python": str(found.python), "torch": installed_torch(found.python)},
        "settings": {
            key: {"value": _value(settings, key), "origin": settings.origins.get(key, "default")} for key in OPTIONS
        },
        "ignored": {one.key: {"value": str(one.value), "origin": one.place} for one in settings.ignored},
        "rules": sorted(enabled),
    }


def _text(settings: Settings, shown: str, file: str | None, enabled: frozenset[str]) -> str:
    from pathlib import Path

    from dynalint.config import OPTIONS
    from dynalint.projects.environments import chosen_interpreter, installed_torch
    from dynalint.report.style import visible

    head = f"# Settings for {visible(shown)}, {f'from {visible(file)}' if file else 'without a configuration file'}.\n"
    lines = []
    for key in OPTIONS:
        value = _value(settings, key)
        # TOML has no null value, so settings that are not set appear as comments.
        lines.append((f"# {key} is not set" if value is None else f"{key} = {_toml(value)}", settings.origins.get(key)))
    width = min(max((len(text) for text, origin in lines if origin), default=0), 60)
    body = "".join(f"{text:<{width}}  # {visible(origin)}\n" if origin else f"{text}\n" for text, origin in lines)
    found = chosen_interpreter(settings)
    release = installed_torch(found.python)
    remarks = [f"{one.described} in {one.place} has no effect, {UNTRUSTED}." for one in settings.ignored]
    remarks.append(f"Code is run by {found.python}, {f'with torch {release}' if release else 'which has no torch'}.")
    remarks += found.notes(Path.cwd())
    remark_lines = "".join(f"# {visible(remark)}\n" for remark in remarks)
    return f"{head}{body}\n{remark_lines}# Enabled rules: {', '.join(sorted(enabled))}\n"


def _value(settings: Settings, key: str) -> Any:
    """Return the value of a setting in the form in which TOML writes it, as a JSON-compatible value."""
    value = settings.value(key)
    if key in ("per-file-ignores", "extend-per-file-ignores"):
        return {glob.pattern: [selector.text for selector in selectors] for glob, selectors in value}
    return _plain(value, settings.root)


def _plain(value: Any, root: Path) -> Any:
    """Convert a nested value in the same way, making paths relative to the configuration file."""
    from pathlib import Path

    from dynalint.config import Glob, Selector, show_path

    if isinstance(value, Glob):
        return value.pattern
    if isinstance(value, Selector):
        return value.text
    if isinstance(value, Path):
        return show_path(value, root) if value.is_relative_to(root) else value.as_posix()
    if isinstance(value, tuple):
        return [_plain(element, root) for element in value]
    return value


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(held)}" for key, held in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "".join(map(_shown, json.dumps(value, ensure_ascii=False)))


def _shown(character: str) -> str:
    """Return a character for a TOML string, escaped if it is a terminal control character."""
    return character if character.isprintable() else f"\\u{ord(character):04x}"
