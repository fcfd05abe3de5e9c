"""Settings of Dynamo that the project's own code makes, as far as rules must know them."""

from __future__ import annotations

import re
from pathlib import Path
from weakref import WeakKeyDictionary

from dynalint.analysis.project import Project

_BESIDE = frozenset({"tests", "test", "testing", "examples", "example", "benchmarks", "benchmark", "docs"})

_answers: WeakKeyDictionary[Project, dict[str, bool]] = WeakKeyDictionary()


def captures_scalars(project: Project) -> bool:
    """Whether the code switches `torch._dynamo.config.capture_scalar_outputs` on: then `.item()` is traced."""
    return _switched_on(project, "capture_scalar_outputs")


def captures_shapes(project: Project) -> bool:
    """Whether the code switches `capture_dynamic_output_shape_ops` of Dynamo on: then `x[mask]` is traced."""
    return _switched_on(project, "capture_dynamic_output_shape_ops")


def _switched_on(project: Project, setting: str) -> bool:
    """Whether a statement sets it for the whole program; `config.patch(...)` does so for a part that rules do not know.

    What tests, examples and benchmarks set holds while they run, and for nobody else who uses the project.
    """
    answers = _answers.setdefault(project, {})
    known = answers.get(setting)
    if known is None:
        pattern = re.compile(rf"^[^#\n]*\.{setting}\s*=\s*True\b", re.MULTILINE)
        files = (module.file for module in project.modules.values() if setting in module.file.text)
        known = answers[setting] = any(pattern.search(file.text) for file in files if not _is_beside(file.path))
    return known


def _is_beside(path: Path) -> bool:
    """Whether a file is of the project's tests, examples or benchmarks, by where it stands or its name."""
    return not _BESIDE.isdisjoint(path.parts[:-1]) or path.name.startswith(("test_", "conftest", "benchmark"))
