"""Confirm findings by running the code under Dynamo in a sandboxed worker process.

confirm(findings, roots, ConfirmOptions(...), progress) -> list[Finding]
"""

from __future__ import annotations

from dynalint.confirm.client import WorkerError
from dynalint.confirm.driver import Interrupted, confirm, examine, run_targets
from dynalint.confirm.options import ConfirmOptions, Execution, Target

__all__ = ["ConfirmOptions", "Execution", "Interrupted", "Target", "WorkerError", "confirm", "examine", "run_targets"]
