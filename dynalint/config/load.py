"""Find and read the configuration from files, `extend`, the environment and the command line.

A project's configuration files are no more trustworthy than its code. Settings that concern the user's machine, and
that could start programs or weaken the sandbox, are set aside unless the user has trusted the project (see `trust`).
The command line, the environment and the user's own file, which is `dynalint/dynalint.toml` in the folder for user
settings, can set anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynalint.config.settings import OPTIONS, Settings, SettingsLayer, about_machine, resolve, split_reserved
from dynalint.config.toml import KeyPath, parse_toml, read_toml
from dynalint.config.values import Raw, nearest, string
from dynalint.errors import ConfigError
from dynalint.projects.reading import read_bounded
from dynalint.projects.trust import RequestedSetting, Trust
from dynalint.projects.user_folders import config_folder

FILE_NAMES = ("dynalint.toml", "pyproject.toml")

_ENVIRONMENT = {
    "DYNALINT_OUTPUT_FORMAT": "output-format",
    "DYNALINT_CACHE_DIR": "cache-dir",
    "DYNALINT_NO_CACHE": "cache",
    "DYNALINT_JOBS": "jobs",
}


@dataclass(frozen=True, slots=True)
class Overrides:
    """Settings that take precedence over all configuration files. Later `layers` take precedence over earlier ones.

    `file` is used instead of the configuration files that would be found. If `isolated` is true, no configuration file
    is used.
    """

    layers: tuple[SettingsLayer, ...] = ()
    file: Path | None = None
    isolated: bool = False


class Configuration:
    """The settings for a run. They can differ between directories, because the nearest configuration file applies."""

    def __init__(self, overrides: Overrides, known: Collection[str], directory: Path | None = None) -> None:
        """Resolve relative paths against `directory`, an absolute path. The default is the working directory.

        Raises:
            ConfigError: If the file given in `overrides` is invalid.
        """
        self._overrides = overrides
        self._known = known
        self._directory = directory or Path.cwd()
        self._by_directory: dict[Path, Settings] = {}
        self._trust = Trust()
        self._user = () if overrides.isolated else self._read_user()
        self._fixed = self._settings(overrides.file) if overrides.file or overrides.isolated else None

    def for_directory(self, directory: Path) -> Settings:
        """Return the settings for files directly in the directory with the absolute path `directory`.

        Raises:
            ConfigError: If a configuration file is invalid.
        """
        if self._fixed is not None:
            return self._fixed
        inheriting = []
        for folder in (directory, *directory.parents):
            if folder in self._by_directory:
                break
            inheriting.append(folder)
            candidates = (folder / name for name in FILE_NAMES)
            found = next((path for path in candidates if is_configuration(path, self._directory)), None)
            if found is not None or folder.parent == folder:
                self._by_directory[folder] = self._settings(found)
                break
        self._by_directory.update(dict.fromkeys(inheriting, self._by_directory[folder]))
        return self._by_directory[directory]

    def for_file(self, path: Path) -> Settings:
        """Return the settings for the file at the absolute path `path`."""
        return self.for_directory(path.parent)

    def for_run(self, paths: Sequence[Path]) -> Settings:
        """Return the settings for the whole run, which are the settings of the directory that contains all `paths`."""
        if not paths:
            return self.for_directory(self._directory)
        try:
            common = Path(os.path.commonpath(paths))
        except ValueError:  # the paths are on different drives
            common = self._directory
        return self.for_directory(common if common.is_dir() else common.parent)

    def _settings(self, file: Path | None) -> Settings:
        layers = read_layers(file, self._directory) if file else []
        root = file.parent if file else self._directory
        harmless, asked = (layers, []) if file == self._overrides.file else _all_split(layers)
        trusted = self._trust.covers(root, asked)
        user = [about_machine(layer) for layer in self._user] if file else self._user
        own = layers if trusted else harmless
        settings = resolve([*user, *own, *self._overrides.layers], self._known, root, file)
        return replace(settings, asked=tuple(asked), trusted=trusted)

    def _read_user(self) -> tuple[SettingsLayer, ...]:
        """Return the user's own settings, in increasing order of precedence.

        If the project has a configuration, only settings that concern the machine are used from here. Otherwise,
        dynalint would judge the same project differently on different machines.
        """
        folder = config_folder()
        if folder is None or not (folder / FILE_NAMES[0]).is_file():
            return ()
        return tuple(read_layers(folder / FILE_NAMES[0], self._directory))


def _all_split(layers: Sequence[SettingsLayer]) -> tuple[list[SettingsLayer], list[RequestedSetting]]:
    """Split each layer into settings that anyone can set and settings that only the user can set."""
    parts = [split_reserved(layer) for layer in layers]
    return [layer for layer, _ in parts], [one for _, asked in parts for one in asked]


def is_configuration(path: Path, directory: Path) -> bool:
    """Return whether a file contains a dynalint configuration.

    `pyproject.toml` contains one if it has a `[tool.dynalint]` table. Messages give the path relative to `directory`.

    Raises:
        ConfigError: If the file cannot be read.
    """
    if not os.path.isfile(path):  # noqa: PTH113 - `is_file` fails where the path is too long
        return False
    if path.name != "pyproject.toml":
        return True
    try:
        if b"dynalint" not in read_bounded(path):  # most files do not have this table, and do not need to be valid TOML
            return False
    except OSError as fault:
        text = f"{show_path(path, directory)}: cannot read the configuration: {fault.strerror or fault}."
        raise ConfigError(text) from fault
    return _table(read_toml(path, show_path(path, directory)).values) is not None


def read_layers(path: Path, directory: Path, seen: tuple[Path, ...] = ()) -> list[SettingsLayer]:
    """Read a configuration file and the files that it extends, in increasing order of precedence.

    Raises:
        ConfigError: If a file is missing or is not TOML, a key is unknown, a value is invalid, or `extend` is circular.
    """
    shown = show_path(path, directory)
    document = read_toml(path, shown)
    values: Any = document.values
    prefix: KeyPath = ()
    if path.name == "pyproject.toml":
        values = _table(document.values)
        prefix = ("tool", "dynalint")
        if values is None:
            raise ConfigError(f"{shown}: there is no [tool.dynalint] table.")

    def locate(key_path: KeyPath) -> str:
        return f"{shown}:{document.line((*prefix, *key_path))}"

    if not isinstance(values, dict):
        raise ConfigError(f"{locate(())}: [tool.dynalint] must be a table.")
    values = dict(values)
    layers: list[SettingsLayer] = []
    if "extend" in values:
        raw = Raw(values.pop("extend"), ("extend",), path.parent, locate)
        base = Path(os.path.normpath(path.parent / Path(string(raw)).expanduser()))
        if base in (*seen, path):
            raise ConfigError(f"{raw.place}: `extend` is circular: it leads back to {show_path(base, directory)}.")
        if not base.is_file():
            raise ConfigError(
                f"{raw.place}: `extend` refers to a file that does not exist: {show_path(base, directory)}."
            )
        layers = read_layers(base, directory, (*seen, path))
    return [*layers, parse_layer(values, path.parent, locate)]


def parse_layer(values: Mapping[str, Any], base: Path, locate: Callable[[KeyPath], str]) -> SettingsLayer:
    """Parse the keys from one source.

    Relative paths start from `base`. `locate` returns where a key was written.

    Raises:
        ConfigError: If a key is unknown, or a value has the wrong type.
    """
    parsed: dict[str, Any] = {}
    for key, value in values.items():
        if key not in OPTIONS:
            hint = nearest(key.replace("_", "-"), [*OPTIONS, "extend"])
            raise ConfigError(f'{locate((key,))}: unknown key "{key}"{hint or "; `dynalint config show` lists them"}.')
        parsed[key] = OPTIONS[key].parse(Raw(value, (key,), base, locate))
    return SettingsLayer(parsed, {key: locate((key,)) for key in parsed})


def inline_layer(text: str, directory: Path) -> SettingsLayer:
    """Parse the "key = value" argument of `--config`.

    Raises:
        ConfigError: If the text is not TOML, a key is unknown or a value has the wrong type.
    """
    try:
        document = parse_toml(text, "--config")
    except ConfigError as fault:
        text = f'--config: "{text}" is neither a file nor a setting in TOML, such as \'select = ["DYN1"]\'.'
        raise ConfigError(text) from fault
    return parse_layer(document.values, directory, lambda _: f"--config '{text}'")


def environment_layer(environment: Mapping[str, str], directory: Path) -> SettingsLayer:
    """Parse the `DYNALINT_*` variables. An empty variable counts as not set.

    Raises:
        ConfigError: If a value has the wrong type.
    """
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, key in _ENVIRONMENT.items():
        text = environment.get(name, "").strip()
        if not text:
            continue
        names[key] = name
        if key == "cache":
            values[key] = text.lower() in ("0", "false", "no", "off")
        else:
            values[key] = int(text) if key == "jobs" and text.isdecimal() else text
    return parse_layer(values, directory, lambda path: names[str(path[0])])


def show_path(path: Path, directory: Path) -> str:
    """Return a path for display, relative to `directory` and with "/" on every platform."""
    try:
        return Path(os.path.relpath(path, directory)).as_posix()
    except ValueError:  # on another drive
        return path.as_posix()


def _table(values: Mapping[str, Any]) -> Any:
    tool = values.get("tool")
    return tool.get("dynalint") if isinstance(tool, dict) else None
