"""Rules reach dynalint by one door."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dynalint.rulekit
import dynalint_rules

_FOLDER = Path(dynalint_rules.__file__).parent
_FILES = sorted(path.relative_to(_FOLDER).as_posix() for path in _FOLDER.rglob("*.py"))


@pytest.mark.parametrize("name", _FILES)
def test_rules_import_dynalint_through_rulekit_alone(name: str) -> None:
    tree = ast.parse((_FOLDER / name).read_text(encoding="utf-8"))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert {module for module in imported if module.partition(".")[0] == "dynalint"} <= {"dynalint.rulekit"}


def test_the_door_opens_on_nothing_that_no_rule_takes() -> None:
    taken = {
        alias.name
        for name in _FILES
        for node in ast.walk(ast.parse((_FOLDER / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dynalint.rulekit"
        for alias in node.names
    }
    assert set(dynalint.rulekit.__all__) == taken
