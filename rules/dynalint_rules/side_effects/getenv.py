"""DYN406: `os.getenv`, whose value becomes a constant in the graph."""

from __future__ import annotations

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, rw
from dynalint_rules._code.scope import Scope


class FrozenGetenv(Rule):
    code = "DYN406"
    name = "frozen-getenv"
    summary = "The value of `os.getenv` is frozen when the code is compiled"
    category = "miscompile"
    events = (Call,)
    calls = frozenset({"os.getenv"})
    message = "compiled code keeps using the value that `os.getenv()` returned during tracing"
    help = "use `os.environ.get()`, which Dynamo guards on"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Read `os.environ`."""
        scope = Scope.of(event, project)
        name, keywords = scope.text(event.node.func), event.node.keywords
        if any(keyword.arg != "default" for keyword in keywords):
            return Declined(
                f"Dynamo does not trace `os.environ.get()` with keyword arguments; first, pass the arguments to "
                f"`{name}()` by position"
            )
        file, given = scope.file, [*event.node.args, *(keyword.value for keyword in keywords)]
        owner = name.removesuffix(".getenv") if name.endswith(".getenv") else "os"
        asked = rw.call(f"{owner}.environ.get", *(rw.kept(file, one) for one in given))
        imports = () if name.endswith(".getenv") else ("import os",)
        return Rewrite(
            "Use `os.environ.get()`, which Dynamo guards on",
            "safe",
            rw.written(file, (event.node, asked)),
            imports=imports,
        )
