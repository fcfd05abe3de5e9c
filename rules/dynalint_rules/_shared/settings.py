"""Settings of Dynamo that the project's own code makes, as far as rules must know them."""

from __future__ import annotations

import re
from weakref import WeakKeyDictionary

from dynalint.analysis.project import Project

_answers: WeakKeyDictionary[Project, dict[str, bool]] = WeakKeyDictionary()


def captures_scalars(project: Project) -> bool:
    """Whether the code switches `torch._dynamo.config.capture_scalar_outputs` on: then `.item()` is traced."""
    return _switched_on(project, "capture_scalar_outputs")


def captures_shapes(project: Project) -> bool:
    """Whether the code switches `capture_dynamic_output_shape_ops` of Dynamo on: then `x[mask]` is traced."""
    return _switched_on(project, "capture_dynamic_output_shape_ops")


def _switched_on(project: Project, setting: str) -> bool:
    answers = _answers.setdefault(project, {})
    known = answers.get(setting)
    if known is None:
        pattern = re.compile(rf"^[^#\n]*\b{setting}\s*=\s*True\b", re.MULTILINE)
        texts = (module.file.text for module in project.modules.values())
        known = answers[setting] = any(setting in text and pattern.search(text) for text in texts)
    return known
