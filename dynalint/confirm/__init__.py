"""Confirm findings by running the code under Dynamo in a sandboxed worker process.

examine(findings, roots, ConfirmOptions(...), progress) -> findings, results
"""

from __future__ import annotations

from dynalint.confirm.client import WorkerError
from dynalint.confirm.driver import examine, run_targets
from dynalint.confirm.options import ConfirmOptions, Execution, Target
from dynalint.confirm.results import Interrupted

__all__ = ["ConfirmOptions", "Execution", "Interrupted", "Target", "WorkerError", "examine", "run_targets"]
