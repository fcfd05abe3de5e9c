"""DYN410: files, folders and what is written to them."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise

_CALLS: dict[str, str] = {
    "builtins": "open",
    "io": "open StringIO BytesIO",
    "os": "listdir scandir walk makedirs mkdir remove rename replace rmdir unlink stat getcwd chdir system popen",
    "os.path": "exists isfile isdir islink getsize getmtime abspath realpath samefile",
    "pathlib.Path": "exists is_file is_dir read_text read_bytes write_text write_bytes open mkdir unlink rename "
    "touch stat iterdir glob rglob resolve cwd",
    "glob": "glob iglob",
    "shutil": "rmtree copy copy2 copyfile copytree move which disk_usage",
    "tempfile": "mkdtemp mkstemp TemporaryDirectory NamedTemporaryFile TemporaryFile",
    "torch": "save load",
    "torch.serialization": "save load",
    "numpy": "save savez savez_compressed savetxt load loadtxt genfromtxt fromfile",
    "json": "dump dumps load loads",
    "pickle": "dump dumps load loads",
    "csv": "reader writer",
}


class FileCall(Rule):
    """Open, read, write or look for files while a model runs.

    ## What it flags
    `open`, `torch.save` and `torch.load`, `np.save` and `np.load`, `json` and `pickle`, `os.path.exists`, `os.listdir`
    and their like, the methods of `pathlib.Path` that touch the file system, `glob`, `shutil` and `tempfile`, in code
    that is compiled. Not flagged: computing with paths (`os.path.join`, `Path(...).name`), which is traced, and the
    same calls in code that is not compiled.

    ## Why
    Files cannot be part of a graph, so the graph ends at each of these calls. Methods of `Path` leave the whole
    function to eager Python.

    ## Example
    ```python
    def forward(self, x):
        h = self.fc(x)
        torch.save(h, "hidden.pt")
        return h
    ```

    Use instead:
    ```python
    def forward(self, x):
        return self.fc(x)


    h = model(x)
    torch.save(h, "hidden.pt")
    ```

    ## How it is rewritten
    It is not. Behind `if not torch.compiler.is_compiling():` nothing would be written in a compiled run, which is
    seldom meant; return what is to be written.

    ## When the rewrite is not exact
    There is none.

    ## How Dynamo words it
    GB0007: `Attempted to call function marked as skipped`, GB0059: `Failed to trace builtin operator` for `open`,
    GB0156: `Unsupported method call` for `json`, GB0294 for NumPy.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN410"
    name = "file-call"
    summary = "a call that touches the file system ends the graph"
    gb = ("GB0007", "GB0059", "GB0156", "GB0294", "GB0142")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{event.callee.removeprefix('builtins.')}()` reaches outside of the graph, which ends there",
                help="do it before or after the call of the compiled function",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the effect has to move."""
        return Declined(
            "files cannot be part of a graph; read before the call (or in `__init__`), and return what is to be written"
        )

    examples = (
        Example(
            name="saving",
            code=forward(
                """
                h = self.fc(x)
                torch.save(h.shape, os.devnull)  # DYN410
                return h + 1
                """,
                head="import os",
            ),
            declined="return what is to be written",
        ),
        Example(
            name="writing",
            code=forward(
                """
                h = self.fc(x)
                with open(os.devnull, "w") as log:  # DYN410
                    log.write("hidden")
                return h + 1
                """,
                head="import os",
            ),
        ),
        Example(
            name="looking-for-a-file",
            code=forward(
                """
                h = self.fc(x)
                if os.path.exists("weights.pt"):  # DYN410
                    h = h + 1
                return h + 2
                """,
                head="import os",
            ),
        ),
        Example(
            name="path-object",
            code=forward(
                """
                h = self.fc(x)
                if Path("weights.pt").is_file():  # DYN410
                    h = h + 1
                return h + 2
                """,
                head="from pathlib import Path",
            ),
        ),
        Example(
            name="json",
            code=forward(
                """
                h = self.fc(x)
                text = json.dumps({"batch": 4})  # DYN410
                return h + 1, text
                """,
                head="import json",
            ),
        ),
        Example(
            name="computing-with-paths",
            code=forward(
                """
                name = os.path.join("a", os.path.basename("b/c.pt")) + Path("d/e.pt").name
                return self.fc(x), name
                """,
                head="import os\nfrom pathlib import Path",
            ),
        ),
        Example(
            name="outside",
            code=forward(
                "return self.fc(x) + self.offset",
                head="import os",
                init="""
                self.fc = nn.Linear(8, 8)
                self.offset = 1.0 if os.path.exists("weights.pt") else 2.0
                """,
            ),
        ),
    )
