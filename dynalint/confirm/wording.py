"""Sentences for the user: how Dynamo explains a break, and why something could not be run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dynalint.confirm.options import Target
from dynalint.confirm.results import Problem
from dynalint.confirm.untrusted import MOST_NAME, cut
from dynalint.confirm.worker.dynamo.records import Break, EagerComparison, RunFailure

# Hints that Dynamo gives with nearly every break. They do not help with a particular line.
_EMPTY_HINTS = (
    "It may be possible to write Dynamo tracing rules",
    "This graph break is fundamental",
    "Please report an issue",
    "This graph break may have been caused by an earlier graph break",
    "This is likely to be a Dynamo bug",
)
_LONGEST = 240
_HINTS = 2
_NETWORK_TYPES = frozenset(
    ("gaierror", "URLError", "ConnectionError", "ConnectTimeout", "TimeoutError", "MaxRetryError")
)


def break_text(found: Break | RunFailure) -> str:
    """Return Dynamo's explanation, followed by the first short hints that are specific to this break."""
    explanation = found.explanation or found.gb_type or "Dynamo gives no explanation."
    return " ".join([_sentence(explanation), *(f"Hint: {hint}" for hint in helpful_hints(found.hints))])


def failure_text(error: RunFailure) -> str:
    """Return Dynamo's explanation of an exception that it raises while it traces, or its message."""
    found = re.search(r"Explanation: (.+)", error.message)
    return _sentence(found[1] if found is not None else _first_line(error.message))


def helpful_hints(hints: Iterable[str]) -> list[str]:
    """Return the first hints from Dynamo that are short and specific to this break, as sentences."""
    hints = [hint for hint in hints if not hint.startswith(_EMPTY_HINTS)]
    short = [hint for hint in hints if len(hint) <= _LONGEST] or hints
    return [_sentence(hint) for hint in short[:_HINTS]]


def effect_text(found: Break) -> str:
    """Describe what a break costs apart from an additional graph, or return an empty string."""
    if found.effect == "frame":
        return "The whole function falls back to eager."
    return "The rest of the function falls back to eager." if found.effect == "rest" else ""


def _sentence(text: str) -> str:
    """Return the text on a single line, ending with a full stop, and without any dump of graph variables."""
    text = re.split(r"\s*The branch condition involves a tensor computed", text)[0]
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3].rsplit(' ', 1)[0]}..."
    return text if text.endswith((".", "!", "?")) else f"{text}."


def comparison_text(found: EagerComparison) -> str:
    """Describe how compiled code differs from eager code, as a sentence without a full stop."""
    mode = " in evaluation mode" if found.evaluation else "" if found.training else " without gradients"
    return (
        f"call {found.call + 1}{mode} gives different results when compiled with aot_eager: "
        f"{_first_line(found.what)}: {_first_line(found.detail)}"
    )


def not_run_text(*, leads: bool, guesses: bool) -> str:
    """Say why nothing is known about a finding, given whether targets lead to it and inputs may be guessed."""
    if not leads:
        return (
            "the compiled code that leads here cannot be imported by name, for example because it is inside a function,"
            " and no call that was found breaks the graph here; `dynalint trace -- COMMAND` confirms what it runs."
        )
    if not guesses:
        return "none of the code that `confirm-from` allows calls the code that leads here."
    return "no code that leads here was run."


def uncalled_text(inputs: str, function: str) -> str:
    """Return why a call that ran shows nothing about the findings in a function."""
    return f"{inputs} ran, but never called `{function}`, and no other call that was found does."


def problem_text(problem: Problem, target: Target, torch: str) -> str:
    """Return a sentence that explains why a target did not run and what may help."""
    if problem.failure is None:
        return _process_text(problem)
    if torch == "" and problem.failure.type == "ModuleNotFoundError":
        return f"torch is not installed for the interpreter that runs the code: {problem.failure.message}."
    missing = re.fullmatch(r"No module named '([\w.]+)'", problem.failure.message)
    if problem.failure.type == "ModuleNotFoundError" and missing:
        # The text is the same for every importing module, so reports show it only once.
        return f"`{missing[1]}` is not installed for the interpreter that runs the code."
    walls = _walls_text(problem.failure)
    what = {
        "import": f"{target.path.name} cannot be imported",
        "build": f"{target.qualname} cannot be built",
        "inputs": f"{target.qualname} was not run",
        "run": f"{target.qualname} ran and failed",
    }[problem.phase]
    if walls:
        return f"{what}: {walls}."
    where = _place(problem.failure)
    reason = _first_line(problem.failure.message) or "no message"
    if problem.phase == "inputs":
        return f"{what}: {reason}; declare an example for {target.name!r} under [tool.dynalint.examples]."
    help_text = (
        "" if problem.phase == "import" else f"; an example for {target.name!r} under [tool.dynalint.examples] may help"
    )
    # The worker raises this itself.
    kind = "" if problem.failure.type == "TooLargeError" else f"{_first_line(problem.failure.type)}: "
    return f"{what}: {kind}{reason}{where}{help_text}."


def _process_text(problem: Problem) -> str:
    ending, stage = problem.ending, problem.stage
    if problem.outcome == "refused":
        anyway = "use --confirm to run the code anyway"
        return f"nothing was run because there is no working sandbox: {ending['reason']}; {anyway}."
    if problem.outcome == "budget":
        return f"not reached: the budget of {ending['seconds']:g} s of processor time is used up; --budget sets it."
    if problem.outcome == "failed":
        return f"the worker failed while {stage}: {_first_line(str(ending['reason']))}."
    if problem.outcome == "lost":
        return f"the worker was lost while {stage}: {_first_line(str(ending['reason']))}."
    did = {
        "timeout": "did not finish within {seconds:g} s",
        "memory": "used more than {size} of memory",
        "processes": "started more than {count} processes",
        "exit": "exited with status {status}",
        "signal": "crashed with {signal}",
        "killed": "was killed by the system with {signal} (out of memory or processor time)",
        "channel": "closed file descriptors that it had not opened",
        "flood": "sent an answer that is too large (more than {size})",
        "garbled": "changed Python or the worker, so its results cannot be read",
        "supervisor": "ended the process that monitors it",
    }.get(problem.outcome, "ended for an unknown reason")
    when = "" if problem.outcome == "garbled" else f" while {stage}"
    return f"the code {did.format(size=_size(ending.get('bytes', 0)), **ending)}{when}."


def _walls_text(failure: RunFailure) -> str:
    """Describe what the sandbox blocked, or return an empty string if the failure has another cause."""
    message = failure.message
    files = {Path(frame.file).name for frame in failure.stack}
    if failure.type in _NETWORK_TYPES or ("Operation not permitted" in message and "socket.py" in files):
        return f"it needs the network, which the sandbox blocks ({failure.type}{_place(failure)})"
    refused = re.search(r"\[Errno (?:13|30)\] [^:]*: (.*)", _first_line(message))
    if failure.type in ("PermissionError", "OSError") and refused:
        return f"it reads or writes files that the sandbox blocks: {refused[1]}{_place(failure)}"
    if failure.type == "MemoryError" or re.search(r"can't allocate memory|std::bad_alloc", message):
        return f"it needs more memory than the limit{_place(failure)}"
    if re.search(r"File too large|No space left", message):
        return f"it writes more data than the limit{_place(failure)}"
    return ""


def _place(failure: RunFailure) -> str:
    """Return the location in the user's code: the innermost frame outside torch and Python, or an empty string."""
    frames = [frame for frame in failure.stack if "site-packages" not in frame.file and "/lib/python" not in frame.file]
    return f" ({cut(Path(frames[-1].file).name, MOST_NAME)}:{frames[-1].line})" if frames else ""


def _first_line(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    line = next((line.strip() for line in text.splitlines() if line.strip()), "").rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _size(count: int) -> str:
    return f"{count / (1 << 30):.3g} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.3g} MiB"
