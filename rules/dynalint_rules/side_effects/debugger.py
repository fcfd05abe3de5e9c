"""DYN405: the debugger is entered, or the keyboard is asked."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.bystanders import guarded_bystanders
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.guard import removed
from dynalint_rules._shared.scope import Refusal, Scope


class DebuggerCall(Rule):
    """Stop in a debugger, or wait for the keyboard, while a model runs.

    ## What it flags
    `breakpoint()`, `pdb.set_trace()` and `input()` in code that is compiled. Not flagged: the same behind `if not
    torch.compiler.is_compiling():`, and in code that is not compiled.

    ## Why
    Dynamo ends the graph, stops in eager Python and begins a second graph. What the debugger shows is the code of a
    function that Dynamo has made, not the one in the file.

    ## Example
    ```python
    def forward(self, x):
        h = self.fc(x)
        breakpoint()
        return h
    ```

    Use instead:
    ```python
    def forward(self, x):
        return self.fc(x)
    ```

    ## How it is rewritten
    `breakpoint()` and `pdb.set_trace()` are taken out. Declined for `input()`, where the call is part of an
    expression, and where it has arguments that may do more than give a value.

    ## When the rewrite is not exact
    It is `safe`: a stop in the debugger changes no value, and a program that runs by itself cannot have meant it.

    ## How Dynamo words it
    GB0059: `Failed to trace builtin operator` for `breakpoint` and `input`, GB0007: `Attempted to call function marked
    as skipped` for `pdb`.

    ## References
    - https://docs.python.org/3/library/functions.html#breakpoint
    """

    code = "DYN405"
    name = "debugger-call"
    summary = "a stop in the debugger or at the keyboard ends the graph"
    gb = ("GB0059", "GB0007")
    events = (Call,)
    calls = frozenset({"builtins.breakpoint", "builtins.input", "pdb.set_trace"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call):
            name = event.callee.removeprefix("builtins.")
            yield Violation(event.node, f"`{name}()` stops for a person, which ends the graph", help="take it out")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Take the stop out."""
        if not isinstance(event, Call):
            return None
        if event.callee == "builtins.input":
            return _asked_in_eager(event, project)
        try:
            return removed(Scope.of(event, project), event, "Take the stop in the debugger out", "safe")
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="breakpoint",
            code=forward(
                """
                h = self.fc(x)
                breakpoint()  # DYN405
                return h + 1
                """,
                # So that the proof of this example does not wait for a person.
                head='import os\n\nos.environ["PYTHONBREAKPOINT"] = "0"\n',
            ),
            fixed=forward(
                """
                h = self.fc(x)
                return h + 1
                """,
                head='import os\n\nos.environ["PYTHONBREAKPOINT"] = "0"\n',
            ),
        ),
        Example(
            name="only-statement-of-a-branch",
            code=forward(
                """
                h = self.fc(x)
                if h.shape[0] == 4:
                    breakpoint()  # DYN405
                return h + 1
                """,
                head='import os\n\nos.environ["PYTHONBREAKPOINT"] = "0"\n',
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if h.shape[0] == 4:
                    pass
                return h + 1
                """,
                head='import os\n\nos.environ["PYTHONBREAKPOINT"] = "0"\n',
            ),
        ),
        Example(
            name="keyboard",
            code=forward(
                """
                h = self.fc(x)
                answer = input()  # DYN405
                return h * float(answer)
                """,
                head="""
                import io
                import sys

                sys.stdin = io.StringIO("2\\n" * 100)
                """,
            ),
            declined="pass the answer as an argument",
        ),
        Example(
            name="not-the-builtin",
            code=forward("""
                input = x * 2
                breakpoint = self.fc
                return breakpoint(input)
            """),
        ),
        Example(
            name="behind-a-guard",
            code=forward(
                """
                if not torch.compiler.is_compiling():
                    breakpoint()
                return self.fc(x)
                """,
                head='import os\n\nos.environ["PYTHONBREAKPOINT"] = "0"\n',
            ),
        ),
    )


def _asked_in_eager(event: Call, project: Project) -> Rewrite | Declined:
    """Ask in eager code only, where nothing depends on the answer."""
    try:
        scope = Scope.of(event, project)
        title, effect = "Ask only in eager code", "a compiled run does not wait for an answer"
        return guarded_bystanders(scope, event, "builtins.input".__eq__, title, effect=effect)
    except Refusal:
        return Declined("the model depends on what is typed; ask before the call and pass the answer as an argument")
