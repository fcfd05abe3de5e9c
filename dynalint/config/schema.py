"""The JSON Schema for the settings, derived from their types and from the installed rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dynalint.config.settings import OPTIONS, Settings
from dynalint.config.values import SELECTOR, Glob, Selector

SCHEMA_URL = "https://raw.githubusercontent.com/dynalint/dynalint/main/docs/dynalint.schema.json"

# Defaults that depend on the machine.
_NO_DEFAULT = ("jobs",)


def schema(known: Collection[str]) -> dict[str, Any]:
    """Return the schema for `dynalint.toml` and `[tool.dynalint]`. `known` are the codes of the installed rules."""
    defaults = Settings(root=Path())
    properties: dict[str, Any] = {
        "extend": {"type": "string", "minLength": 1, "description": "A configuration file to inherit from."}
    }
    for option in OPTIONS.values():
        properties[option.key] = {**option.parse.schema, "description": option.doc}
        default = _plain(defaults.value(option.key))
        if default is not None and option.key not in _NO_DEFAULT:
            properties[option.key]["default"] = default
    prefixes = {code[:length] for code in known for length in range(1, len(code) + 1)}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_URL,
        "title": "dynalint",
        "description": "Settings for dynalint, a linter for torch.compile.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "definitions": {SELECTOR: {"enum": ["ALL", *sorted(prefixes)]}},
    }


def _plain(value: Any) -> Any:
    """Return a default as a JSON-compatible value."""
    match value:
        case Glob(pattern=text) | Selector(text=text):
            return text
        case tuple():
            return [_plain(one) for one in value]
        case Mapping():
            return {key: _plain(held) for key, held in value.items()}
        case _:
            return value
