"""DYN411: the interpreter, the process and the operating system."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    Call,
    Declined,
    ItemWrite,
    Project,
    Refusal,
    Rewrite,
    Rule,
    Violation,
    leads_to_raise,
    rw,
    walk,
)
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.names import within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.bystanders import guarded_bystanders
from dynalint_rules._shared.guard.statements import guarded, guarded_all

_CALLS: dict[str, str] = {
    "gc": "collect disable enable get_objects",
    "uuid": "uuid1 uuid4",
    "secrets": "token_hex token_bytes token_urlsafe randbelow choice",
    "os": "getpid getppid cpu_count urandom uname times putenv kill getloadavg",
    "os.environ": "update",
    "threading": "Lock RLock Event Condition Semaphore Thread get_ident current_thread",
    "subprocess": "run Popen call check_call check_output",
    "socket": "gethostname socket",
    "signal": "alarm signal",
    "atexit": "register",
    "hashlib": "md5 sha1 sha256 sha512 new",
    "inspect": "stack currentframe",
    "traceback": "print_stack print_exc format_stack",
    "sys": "_getframe getsizeof getrefcount",
    "getpass": "getuser",
    "torch": "set_num_threads get_num_threads",
    "torch.cuda": "memory_allocated max_memory_allocated memory_reserved max_memory_reserved device_count",
    "torch.cuda.memory": "memory_allocated max_memory_allocated memory_reserved max_memory_reserved",
}
# Statements that change no value that code can see.
_HOUSEKEEPING = ("gc.collect", "gc.disable", "gc.enable", "traceback.print_stack", "traceback.print_exc")
# What gives a value and does nothing else.
_ASKS = frozenset(
    "uuid.uuid1 uuid.uuid4 os.getpid os.getppid os.cpu_count os.uname os.times os.getloadavg threading.get_ident "
    "threading.current_thread socket.gethostname inspect.stack inspect.currentframe traceback.format_stack "
    "sys._getframe sys.getsizeof sys.getrefcount".split()
)
# What stays the same while a process runs, but for what the program itself may change.
_LASTING = frozenset(
    "os.cpu_count os.uname socket.gethostname getpass.getuser torch.cuda.device_count torch.get_num_threads".split()
)
# Comprehensions have a frame of their own before Python 3.12.
_OWN_FRAMES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_FRAMES = ("inspect.currentframe", "sys._getframe")


class SystemCall(Rule):
    code = "DYN411"
    name = "system-call"
    summary = "A call to the interpreter, the process or the operating system breaks the graph"
    gb = ("GB0007", "GB0208", "GB0008", "GB0156", "GB0147", "GB0059")
    events = (Call, ItemWrite)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())

    def check(self, event: Call | ItemWrite, project: Project) -> Iterable[Violation]:
        """Flag the call, or the change of the environment, wherever it stands."""
        if isinstance(event, Call):
            what = f"`{event.callee}()`"
        elif isinstance(event, ItemWrite) and event.name == "os.environ":
            what = "changing `os.environ`"
        else:
            return
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"{what} has effects outside the graph, which breaks there",
                help="do it outside the compiled code",
            )

    def fix(self, event: Call | ItemWrite, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep house in eager code only, and ask for what nothing depends on."""
        try:
            scope = Scope.of(event, project)
            if isinstance(event, ItemWrite):
                return _environment_kept(scope, event)
            if isinstance(event, Call) and event.callee in _HOUSEKEEPING:
                return guarded(scope, event, f"Call `{event.callee}()` only in eager code")
            if (
                isinstance(event, Call)
                and event.callee in _FRAMES
                and (named := _own_name(scope, event.node)) is not None
            ):
                return named
            if isinstance(event, Call) and event.callee in _LASTING:
                return Declined("its result may change; query it once, at module level or in `__init__`")
            if isinstance(event, Call) and event.callee in _ASKS:
                return guarded_bystanders(
                    scope, event, _ASKS.__contains__, f"Call `{event.callee}()` only in eager code"
                )
        except Refusal as refusal:
            return Declined(f"{refusal}; do it outside the compiled code")
        return Declined("code may depend on its result or effect; do it outside the compiled code")


def _own_name(scope: Scope, call: ast.Call) -> Rewrite | None:
    """Write the name of the function as a constant where that is all it asks of its frame."""
    function: ast.AST = scope.function.node
    code = scope.parents[call]
    name = scope.parents[code]
    if call.args or call.keywords or not (isinstance(code, ast.Attribute) and isinstance(name, ast.Attribute)):
        return None
    if (code.attr, name.attr) != ("f_code", "co_name") or not isinstance(function, ast.FunctionDef):
        return None
    if any(isinstance(one, _OWN_FRAMES) and within(call, one, scope) for one in walk(function)):
        return None
    return Rewrite(
        "Write the name of the function as a constant", "safe", rw.written(scope.file, (name, f'"{function.name}"'))
    )


def _environment_kept(scope: Scope, event: ItemWrite) -> Rewrite:
    """Set a variable of the environment in eager code only."""
    statement = event.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        raise Refusal(f"{scope.quote(statement)} changes more than one variable")
    effects_of(scope, [statement.value])
    condition = "a compiled run leaves the environment as it was"
    return guarded_all(scope, [statement], "Change the environment only in eager code", "unsafe", (condition,))
