"""Settings of Dynamo that the project's own code makes, as far as rules must know them."""

from __future__ import annotations

import re
from weakref import WeakKeyDictionary

from dynalint.analysis.project import Project

_CAPTURES = re.compile(r"^[^#\n]*\bcapture_scalar_outputs\s*=\s*True\b", re.MULTILINE)

_answers: WeakKeyDictionary[Project, bool] = WeakKeyDictionary()


def captures_scalars(project: Project) -> bool:
    """Whether the code switches `torch._dynamo.config.capture_scalar_outputs` on: then `.item()` is traced."""
    known = _answers.get(project)
    if known is None:
        texts = (module.file.text for module in project.modules.values())
        known = _answers[project] = any("capture_scalar_outputs" in text and _CAPTURES.search(text) for text in texts)
    return known
