"""No modules import each other in a circle, and no two public classes of dynalint have the same name.

Imports for type checkers count, and imports in functions do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from dynalint.analysis.build import absolute_name

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def modules() -> dict[str, Path]:
    found = {}
    for root in (ROOT, ROOT / "rules"):
        for package in ("dynalint", "dynalint_rules"):
            for path in (root / package).rglob("*.py"):
                parts = path.relative_to(root).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(node: ast.AST, name: str, *, package: bool) -> Iterator[str]:
    """The names that a module imports outside of functions, each with the module that it comes from."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            source = absolute_name(name, package, child.level, child.module or "")
            yield from (f"{source}.{alias.name}" for alias in child.names)
        elif not isinstance(child, FUNCTIONS):
            yield from imports(child, name, package=package)


def test_no_modules_import_each_other() -> None:
    known = modules()
    uses: dict[str, set[str]] = {}
    for name, path in known.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        wanted = list(imports(tree, name, package=path.name == "__init__.py"))
        uses[name] = {one if one in known else one.rpartition(".")[0] for one in wanted} & known.keys()
    assert sum(map(len, uses.values())) > 1000
    TopologicalSorter(uses).prepare()


def test_no_public_classes_have_the_same_name() -> None:
    paths = [path for name, path in modules().items() if name.startswith("dynalint.")]
    nodes = [node for path in paths for node in ast.parse(path.read_text(encoding="utf-8")).body]
    names = [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    assert sorted(names) == sorted(set(names))
