"""Explain a model or function: the graphs that Dynamo compiles, where and why they break, and what would help."""

from __future__ import annotations

from dynalint.explaining.ask import NotExplainedError, explain
from dynalint.explaining.model import Explanation
from dynalint.explaining.target import find_targets

__all__ = ["Explanation", "NotExplainedError", "explain", "find_targets"]
