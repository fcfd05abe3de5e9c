"""DYN401: `print` and other ways of writing to the console."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.guard import guarded, removed
from dynalint_rules._shared.scope import Refusal, Scope

_NAMES = {
    "builtins.print": "print()",
    "pprint.pprint": "pprint()",
    "pprint.pp": "pp()",
    "sys.stdout.write": "sys.stdout.write()",
    "sys.stdout.flush": "sys.stdout.flush()",
    "sys.stderr.write": "sys.stderr.write()",
    "sys.stderr.flush": "sys.stderr.flush()",
}


class PrintCall(Rule):
    """Print while a model runs.

    ## What it flags
    `print`, `pprint.pprint` and `pprint.pp`, `sys.stdout.write`, `sys.stderr.write` and their `flush`, in code that is
    compiled. Not flagged: prints in training loops and other code that is not compiled, prints behind `if not
    torch.compiler.is_compiling():` or a flag that is always false, and prints on the way to a `raise`.

    ## Why
    Text on the console cannot be part of a graph. Dynamo ends the graph, prints, and begins a second one, in every
    call. In a `for` or `try`, the whole function is left to eager Python.

    ## Example
    ```python
    def forward(self, x):
        h = self.fc(x)
        print("hidden", h.shape)
        return torch.relu(h)
    ```

    Use instead:
    ```python
    def forward(self, x):
        h = self.fc(x)
        if not torch.compiler.is_compiling():
            print("hidden", h.shape)
        return torch.relu(h)
    ```

    ## How it is rewritten
    The statement is put behind `if not torch.compiler.is_compiling():`, together with prints right beside it; an `if`
    that holds nothing else gets `and not torch.compiler.is_compiling()` instead. Where its test asks a tensor, as in
    `if loss.isnan():`, the guard goes first, and the graph does not end at the test either. With the setting
    `print-fix = "remove"` the statement is taken out instead. A line that the print shares with other
    statements is taken apart. Declined where the print is part of an expression or stands in a lambda, and where its
    arguments may do more than give a value, or raise under a `try` of the function that catches it.

    ## When the rewrite is not exact
    The guard is `safe`: eager code prints as before for every input, and outputs, gradients and state of a compiled
    run are the same. A compiled run no longer prints, which is the point of the rewrite. Taking the print out is
    `unsafe`: eager code no longer prints either. To keep the text in a compiled run, leave the code as it is and set
    `torch._dynamo.config.reorderable_logging_functions`, which prints after the graph has run, and so shows values
    that were changed in place later.

    ## How Dynamo words it
    GB0059: `Failed to trace builtin operator`, "Dynamo does not know how to trace builtin operator `print`". GB0156:
    `Unsupported method call` for the streams, GB0207: `sort with non-constant keys` for `pprint`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.compiler.is_compiling.html
    """

    code = "DYN401"
    name = "print-call"
    summary = "a print ends the graph"
    gb = ("GB0059", "GB0156", "GB0207")
    events = (Call,)
    calls = frozenset(_NAMES)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{_NAMES[event.callee]}` writes to the console, which ends the graph",
                help="print only in eager code: `if not torch.compiler.is_compiling():`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Print in eager code only, or not at all if the settings say so."""
        if not isinstance(event, Call):
            return None
        try:
            scope = Scope.of(event, project)
            if project.options.get("print-fix") == "remove":
                return removed(scope, event, "Do not print", "unsafe", ("eager code prints no longer",))
            return guarded(
                scope,
                event,
                "Print only in eager code; a compiled run prints nothing",
                alike=lambda call: callee(scope, call) in _NAMES,
            )
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="between-layers",
            code=forward("""
                h = self.fc(x)
                print("hidden", h.shape)  # DYN401
                return torch.relu(h)
            """),
            fixed=forward("""
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    print("hidden", h.shape)
                return torch.relu(h)
            """),
        ),
        Example(
            name="run-of-prints",
            code=forward('''
                h = self.fc(x)
                # What comes in ...
                print("in", x.shape)  # DYN401
                # ... and what comes out.
                print(  # DYN401
                    f"""out
                {h.shape}""",
                    h.dtype,
                )
                return h
            '''),
            fixed=forward('''
                h = self.fc(x)
                # What comes in ...
                if not torch.compiler.is_compiling():
                    print("in", x.shape)
                    # ... and what comes out.
                    print(
                        f"""out
                {h.shape}""",
                        h.dtype,
                    )
                return h
            '''),
            gb=("GB0059",),
        ),
        Example(
            name="in-a-loop",
            code=forward("""
                for step in range(3):
                    x = self.fc(x)
                    print("step", step)  # DYN401
                return x
            """),
            fixed=forward("""
                for step in range(3):
                    x = self.fc(x)
                    if not torch.compiler.is_compiling():
                        print("step", step)
                return x
            """),
        ),
        Example(
            name="on-the-line-of-its-condition",
            code=forward("""
                h = self.fc(x)
                if h.shape[0] > 1: print("batch", end="")  # DYN401
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                if h.shape[0] > 1 and not torch.compiler.is_compiling(): print("batch", end="")
                return h
            """),
        ),
        Example(
            name="in-a-helper",
            code=forward(
                "return report(self.fc(x)) + 1",
                head="""
                def report(value):
                    print("value", value.mean())  # DYN401
                    return value * 2
                """,
            ),
            fixed=forward(
                "return report(self.fc(x)) + 1",
                head="""
                def report(value):
                    if not torch.compiler.is_compiling():
                        print("value", value.mean())
                    return value * 2
                """,
            ),
        ),
        Example(
            name="removed-on-request",
            code=forward("""
                h = self.fc(x)
                print("here")  # DYN401
                if h.dim() == 2:
                    print("two")  # DYN401
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                if h.dim() == 2:
                    pass
                return h
            """),
            options={"print-fix": "remove"},
        ),
        Example(
            name="streams",
            code=forward(
                """
                sys.stdout.write("hidden")  # DYN401
                return self.fc(x)
                """,
                head="import sys",
            ),
            fixed=forward(
                """
                if not torch.compiler.is_compiling():
                    sys.stdout.write("hidden")
                return self.fc(x)
                """,
                head="import sys",
            ),
        ),
        Example(
            name="in-an-expression",
            code=forward("""
                h = self.fc(x)
                h.shape[0] > 2 and print("large")  # DYN401
                return h
            """),
            declined="is part of a larger expression",
        ),
        Example(
            name="in-a-lambda",
            code=forward("""
                show = lambda value: print("value", value)  # DYN401
                show(x.shape)
                return self.fc(x)
            """),
            declined="stands in a lambda",
        ),
        Example(
            name="shared-line",
            code=forward("""
                h = self.fc(x); print("hidden"); h = h + 1  # DYN401
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    print("hidden")
                h = h + 1
                return h
            """),
        ),
        Example(
            name="argument-with-an-effect",
            code=forward("""
                h = self.fc(x).detach()
                print(h.add_(1).shape)  # DYN401
                return h
            """),
            declined="may have an effect of its own",
        ),
        Example(
            name="behind-a-guard",
            code=forward("""
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    print("hidden", h.shape)
                return h
            """),
        ),
        Example(
            name="not-the-builtin",
            code=forward(
                """
                print = self.show
                print(x)
                return self.fc(x)
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.show = len
                """,
            ),
        ),
        Example(
            name="on-the-way-to-a-raise",
            code=forward("""
                if x.shape[-1] != 8:
                    print("bad shape", x.shape)
                    raise ValueError("bad shape")
                return self.fc(x)
            """),
        ),
    )
