"""DYN406: `os.getenv`, whose value is frozen into the graph."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope

# A part of the graph that Dynamo does not look into changes the variable after each call. The variable is called as the
# module is, so that two copies of the module do not share it.
_ALTERNATING = forward(
    """
    h = self.fc(x) * float(READ
    return swap(h)
    """,
    head='''
    import os


    @torch.library.custom_op(f"{__name__}::swap", mutates_args=())
    def swap(h: torch.Tensor) -> torch.Tensor:
        """Give `h` back and set the variable for the next call."""
        os.environ[__name__] = "2" if os.environ[__name__] == "1" else "1"
        return h.clone()


    swap.register_fake(torch.empty_like)
    swap.register_autograd(lambda context, gradient: gradient)
    os.environ[__name__] = "1"
    ''',
)


class FrozenGetenv(Rule):
    """Read an environment variable with `os.getenv` while a model runs.

    ## What it flags
    `os.getenv` in code that is compiled. Not flagged: `os.environ.get(...)` and `os.environ[...]`, and `os.getenv` in
    code that is not compiled (at the top of a module, in `__init__`).

    ## Why
    Dynamo takes the value that it sees while it traces for a constant, without a guard. Later calls go on with it
    after the variable has changed, silently. `os.environ.get` is guarded: when the value changes, Dynamo traces again.

    ## Example
    ```python
    def forward(self, x):
        return x * float(os.getenv("SCALE", "1"))
    ```

    Use instead:
    ```python
    def forward(self, x):
        return x * float(os.environ.get("SCALE", "1"))
    ```

    ## How it is rewritten
    `os.getenv(...)` becomes `os.environ.get(...)`.

    ## When the rewrite is not exact
    It always is, so it is `safe`: `os.getenv(key, default)` is defined as `os.environ.get(key, default)`.

    ## How Dynamo words it
    Not at all. The code compiles whole; only a comparison with eager code shows the wrong value.

    ## References
    - https://docs.python.org/3/library/os.html#os.getenv
    - https://docs.pytorch.org/docs/stable/compile/programming_model.html
    """

    code = "DYN406"
    name = "frozen-getenv"
    summary = "the value of `os.getenv` is frozen when the code is compiled"
    category = "miscompile"
    events = (Call,)
    calls = frozenset({"os.getenv"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call):
            yield Violation(
                event.node,
                "compiled code keeps the value that `os.getenv()` had when it was traced",
                help="use `os.environ.get()`, which is guarded",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Ask `os.environ`."""
        if not isinstance(event, Call):
            return None
        try:
            scope = Scope.of(event, project)
        except Refusal as refusal:
            return Declined(str(refusal))
        name, keywords = scope.text(event.node.func), event.node.keywords
        if any(keyword.arg != "default" for keyword in keywords):
            return Declined(
                f"Dynamo does not trace `os.environ.get()` with keywords; pass those of `{name}()` in order first"
            )
        file = scope.file
        start, end = file.span(event.node.func)
        owner = name.removesuffix(".getenv") if name.endswith(".getenv") else "os"
        replacements = [Replacement(file, start, end, f"{owner}.environ.get")]
        replacements += [Replacement(file, file.span(one)[0], file.span(one.value)[0], "") for one in keywords]
        imports = () if name.endswith(".getenv") else ("import os",)
        return Rewrite("Ask `os.environ`, which is guarded", "safe", tuple(replacements), imports=imports)

    examples = (
        Example(
            name="changed-between-calls",
            code=_ALTERNATING.replace("READ", 'os.getenv(__name__, "1"))  # DYN406'),
            fixed=_ALTERNATING.replace("READ", 'os.environ.get(__name__, "1"))'),
            inputs="[(torch.ones(4, 8),)] * 4",
        ),
        Example(
            name="default-by-name",
            code=forward(
                "return self.fc(x) * float(os.getenv('DYNALINT_SCALE', default='1'))  # DYN406",
                head="import os",
            ),
            fixed=forward(
                "return self.fc(x) * float(os.environ.get('DYNALINT_SCALE', '1'))",
                head="import os",
            ),
            shows="clean",
        ),
        Example(
            name="imported-by-name",
            code=forward(
                'return self.fc(x) * len(getenv("HOME", ""))  # DYN406',
                head="from os import getenv",
            ),
            fixed=forward(
                'return self.fc(x) * len(os.environ.get("HOME", ""))',
                head="import os\nfrom os import getenv",
            ),
            shows="clean",
        ),
        Example(
            name="guarded-forms",
            code=forward(
                """
                scale = float(os.environ.get("DYNALINT_SCALE", "1")) + len(os.environ["PATH"])
                return self.fc(x) * scale
                """,
                head="import os",
            ),
        ),
        Example(
            name="read-once",
            code=forward(
                "return self.fc(x) * self.scale",
                head="import os",
                init="""
                self.fc = nn.Linear(8, 8)
                self.scale = float(os.getenv("DYNALINT_SCALE", "1"))
                """,
            ),
        ),
    )
