"""Confirm findings by running the code under Dynamo in a sandboxed worker process.

confirm(findings, roots, ConfirmOptions(...), progress) -> list[Finding]
"""

from __future__ import annotations

from dynalint.confirm.client import WorkerError
from dynalint.confirm.driver import confirm, examine, run_targets
from dynalint.confirm.options import ConfirmOptions, Execution, Target
from dynalint.confirm.results import Interrupted

__all__ = ["ConfirmOptions", "Execution", "Interrupted", "Target", "WorkerError", "confirm", "examine", "run_targets"]
