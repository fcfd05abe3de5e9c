"""`fix --settings`: turn on the settings that let Dynamo trace findings, in the files that call `torch.compile`."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dynalint.analysis.source import SourceFile
from dynalint.findings import Fix
from dynalint.fix.edits import to_edits
from dynalint.fix.imports import EditError, below_imports
from dynalint.fix.model import Linted
from dynalint.rules import Replacement, Rewrite

_CONDITION = "it also changes how other code is compiled"


def setting_line(setting: str, torch: str = "torch") -> str:
    """Return the statement that turns on a `torch._dynamo.config` setting.

    `torch` is the name that the file uses for it.
    """
    return f"{torch}._dynamo.config.{setting} = True"


def with_settings(
    linted: Sequence[Linted], files: Iterable[SourceFile], shown: Callable[[SourceFile], str]
) -> tuple[Linted, ...]:
    """Replace each finding's rewrite with one that turns on its setting in `files`, below their imports.

    If a finding has no setting, it has no rewrite. `shown` formats a file's path.
    """
    files = tuple(files)
    rewrites = {name: _rewrite(name, files) for name in {one.finding.setting for one in linted} if name}
    return tuple(_with_rewrite(one, rewrites.get(one.finding.setting), shown) for one in linted)


def _with_rewrite(linted: Linted, rewrite: Rewrite | None, shown: Callable[[SourceFile], str]) -> Linted:
    if rewrite is None:
        return replace(linted, finding=replace(linted.finding, fix=None), rewrite=None)
    edits = to_edits(rewrite, linted.file, shown)
    fix = Fix(rewrite.title, rewrite.safety, rewrite.conditions, edits=edits)
    return replace(linted, finding=replace(linted.finding, fix=fix), rewrite=rewrite)


def _rewrite(setting: str, files: Sequence[SourceFile]) -> Rewrite | None:
    replacements = []
    for file in files:
        with contextlib.suppress(EditError):
            place, text = below_imports(file, setting_line(setting, _torch_in(file)))
            replacements.append(Replacement(file, place, place, text))
    if not replacements:
        return None
    imports = ("import torch",) if any(_torch_in(one.file) == "torch" for one in replacements) else ()
    return Rewrite(f"Set `{setting_line(setting)}`", "unsafe", tuple(replacements), (_CONDITION,), imports)


def _torch_in(file: SourceFile) -> str:
    """Return the name that a file imports torch as, or "torch" if it does not import it."""
    imports = (node for node in (file.tree.body if file.tree is not None else ()) if isinstance(node, ast.Import))
    names = [alias.asname or alias.name for node in imports for alias in node.names if alias.name == "torch"]
    return names[0] if names else "torch"
