"""Which rules are enabled for which files, and which rules' fixes can be applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

from dynalint.config.values import Glob, Selector, nearest
from dynalint.errors import ConfigError
from dynalint.projects.patterns import compile_patterns

# Syntax errors are reported whichever rules are selected. They are only silenced if this exact code is ignored.
ALWAYS_SELECTED = frozenset({"DYN901"})


@dataclass(frozen=True, slots=True)
class PerFileIgnore:
    """Codes that are disabled for files matching a pattern or, if the pattern starts with "!", for all other files."""

    glob: Glob
    codes: frozenset[str]

    def covers(self, path: Path) -> bool:
        """Return whether the codes are disabled for the file at the absolute path `path`."""
        negated = self.glob.pattern.startswith("!")
        return matches(Glob(self.glob.base, self.glob.pattern.removeprefix("!")), path) is not negated


@dataclass(frozen=True)
class RuleSelection:
    """The codes of the rules that are `enabled`, and of the rules whose fixes can be applied (`fixable`)."""

    enabled: frozenset[str] = frozenset()
    fixable: frozenset[str] = frozenset()
    per_file: tuple[PerFileIgnore, ...] = ()

    def enabled_for(self, path: Path) -> frozenset[str]:
        """Return the codes that are enabled for the file at the absolute path `path`."""
        off = [entry.codes for entry in self.per_file if entry.covers(path)]
        return self.enabled.difference(*off)


def select(layers: Sequence[Mapping[str, Any]], known: Collection[str], default: Sequence[Selector]) -> RuleSelection:
    """Return which `known` codes are enabled, given the values from all layers in increasing order of precedence.

    As in ruff, a longer prefix takes precedence over a shorter one in the same layer, whether it selects or ignores
    codes. A layer that sets `select` starts from scratch. Other layers modify the previous selection.

    Raises:
        ConfigError: If a selector matches no code. The message says where it was written and suggests the closest code.
    """
    enabled = {code for code in known if any(selector.matches(code) for selector in default)}
    enabled |= ALWAYS_SELECTED & set(known)
    fixable = set(known)
    for values in layers:
        on = [*values.get("select", ()), *values.get("extend-select", ())]
        off = [*values.get("ignore", ()), *values.get("extend-ignore", ())]
        always = ALWAYS_SELECTED & set(known)
        enabled = _apply(always if "select" in values else enabled, on, off, known)
        allowed, denied = values.get("fixable", ()), values.get("unfixable", ())
        fixable = _apply(set() if "fixable" in values else fixable, allowed, denied, known)
    return RuleSelection(frozenset(enabled), frozenset(fixable), _per_file(layers, known))


def expand(selectors: Iterable[Selector], known: Collection[str]) -> frozenset[str]:
    """Return the codes that at least one of the selectors matches.

    Raises:
        ConfigError: If a selector matches no code. The message says where it was written and suggests the closest code.
    """
    return frozenset(code for selector in selectors for code in _codes(selector, known))


def matches(glob: Glob, path: Path) -> bool:
    """Return whether the pattern matches the file at the absolute path `path` or one of its parent directories."""
    try:
        relative = path.relative_to(glob.base).as_posix()
    except ValueError:
        # Files outside the pattern's directory are only matched by name.
        relative = path.name
    return _compiled(glob.pattern).match_file(relative)


@cache
def _compiled(pattern: str) -> GitIgnoreSpec:
    return compile_patterns([pattern])


def _apply(
    chosen: Collection[str], on: Iterable[Selector], off: Iterable[Selector], known: Collection[str]
) -> set[str]:
    changes = [(selector, True) for selector in on] + [(selector, False) for selector in off]
    result = set(chosen)
    # The sort is stable, so for prefixes of the same length, an ignored one comes last and takes precedence.
    for selector, wanted in sorted(changes, key=lambda change: len(change[0].prefix)):
        codes = _codes(selector, known)
        result = result | codes if wanted else result - codes
    return result


def _codes(selector: Selector, known: Collection[str]) -> set[str]:
    codes = {code for code in known if selector.matches(code)}
    if not codes:
        hint = nearest(selector.text.upper(), sorted(known)) or "; `dynalint rule --all` lists them"
        raise ConfigError(f'{selector.place}: no rule has the code or prefix "{selector.text}"{hint}.')
    return codes


def _per_file(layers: Sequence[Mapping[str, Any]], known: Collection[str]) -> tuple[PerFileIgnore, ...]:
    entries: tuple[tuple[Glob, tuple[Selector, ...]], ...] = ()
    extensions: tuple[tuple[Glob, tuple[Selector, ...]], ...] = ()
    for values in layers:
        entries = values.get("per-file-ignores", entries)
        extensions += values.get("extend-per-file-ignores", ())
    return tuple(PerFileIgnore(glob, expand(selectors, known)) for glob, selectors in entries + extensions)
