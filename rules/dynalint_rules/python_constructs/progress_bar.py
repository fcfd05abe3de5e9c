"""DYN718: progress bars."""

from __future__ import annotations

from dynalint.rulekit import PROGRESS_BARS, Call, Rule

_METHODS = "update set_description set_postfix refresh write close"


class ProgressBar(Rule):
    code = "DYN718"
    name = "progress-bar"
    summary = "A progress bar breaks the graph"
    gb = ("GB0007", "GB0008", "GB0142")
    events = (Call,)
    calls = PROGRESS_BARS | {f"tqdm.tqdm.{name}" for name in _METHODS.split()}
    message = "`{callee}()` cannot be part of a graph, so the graph breaks here"
    help = "show progress around the compiled code"
    refusal = "the statement may only update the bar; show progress around the call"
