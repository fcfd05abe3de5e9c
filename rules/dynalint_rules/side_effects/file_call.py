"""DYN410: files, folders and what is written to them."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.names import loads
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import guarded_all

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
_OPENS = ("builtins.open", "io.open")
# What looks for something, and what only computes and gives a value that cannot change.
_LOOKS = frozenset(
    {
        "os.getcwd",
        *(f"os.path.{name}" for name in _CALLS["os.path"].split()),
        *(f"pathlib.Path.{name}" for name in ("exists", "is_file", "is_dir")),
    }
)
_WRITES = frozenset(
    "torch.save torch.serialization.save numpy.save numpy.savez numpy.savez_compressed numpy.savetxt json.dump "
    "pickle.dump os.makedirs os.mkdir pathlib.Path.write_text pathlib.Path.write_bytes pathlib.Path.mkdir "
    "pathlib.Path.touch".split()
)
_ON_HANDLES = frozenset({"write", "writelines", "flush", "close"})
_WRITING_MODES = frozenset("wax")


class FileCall(Rule):
    code = "DYN410"
    name = "file-call"
    summary = "A call that touches the file system breaks the graph"
    gb = ("GB0007", "GB0059", "GB0156", "GB0294", "GB0142")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())
    message = "`{callee}()` has effects outside the graph, which breaks there"
    help = "do it outside the compiled code"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Write in eager code only."""
        try:
            if event.callee in _OPENS or event.callee in _WRITES:
                return _written_in_eager(Scope.of(event, project), event)
        except Refusal as refusal:
            return Declined(f"{refusal}; return what is to be written")
        if event.callee in _LOOKS:
            return Declined("files may change; look them up before the call, or in `__init__`")
        return Declined("files cannot be part of a graph; read before the call, or in `__init__`")


def _written_in_eager(scope: Scope, event: Call) -> Rewrite:
    """Put a statement that only writes behind a guard."""
    statement = event.statement
    handle = None
    body: list[ast.stmt] = [statement]
    if isinstance(statement, ast.With) and len(statement.items) == 1 and statement.items[0].context_expr is event.node:
        target = statement.items[0].optional_vars
        handle = target.id if isinstance(target, ast.Name) else None
        body = statement.body
    if event.callee in _OPENS and not _opened_to_write(event.node):
        raise Refusal(f"what {scope.quote(event.node)} gives may be used")
    if handle is not None and sum(1 for _ in loads(scope, handle)) > sum(_reads(one, handle) for one in body):
        raise Refusal(f"`{handle}` is used after the file is closed")

    def writes(call: ast.Call) -> bool:
        if call is event.node or callee(scope, call) in _WRITES or callee(scope, call) == "builtins.print":
            return True
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _ON_HANDLES:
            return False
        owner = function.value
        return owner is event.node or (isinstance(owner, ast.Name) and owner.id == handle)

    for one in body:
        if not isinstance(one, ast.Expr) or not isinstance(one.value, ast.Call) or not writes(one.value):
            raise Refusal(f"{scope.quote(one)} does more than write")
        effects_of(scope, [one.value], besides=writes)
    condition = "a compiled run does not write there"
    return guarded_all(scope, [statement], "Write only in eager code", "unsafe", (condition,))


def _opened_to_write(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and bool(_WRITING_MODES & set(str(mode.value))) for mode in modes)


def _reads(statement: ast.stmt, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in walk(statement))
