"""DYN718: progress bars."""

from __future__ import annotations

from dynalint.rulekit import PROGRESS_BARS, Call, Rule

_METHODS = "update set_description set_postfix refresh write close"


class ProgressBar(Rule):
    code = "DYN718"
    name = "progress-bar"
    summary = "A progress bar in compiled code breaks the graph"
    gb = ("GB0007", "GB0008", "GB0142")
    events = (Call,)
    calls = PROGRESS_BARS | {f"tqdm.tqdm.{name}" for name in _METHODS.split()}
    message = "Dynamo does not trace `{callee}()`, so the graph breaks here"
    help = "show progress outside the compiled code"
    refusal = (
        "show progress outside the compiled code, or write `values if torch.compiler.is_compiling() else tqdm(values)`"
    )
