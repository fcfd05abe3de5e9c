"""DYN411: calls to the interpreter, the process or the operating system."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import (
    Call,
    Declined,
    ItemWrite,
    Project,
    Rewrite,
    Rule,
    Violation,
    leads_to_raise,
)
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import guarded

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
# Calls that do not change any value that other code can read.
_HOUSEKEEPING = ("gc.collect", "gc.disable", "gc.enable", "traceback.print_stack", "traceback.print_exc")


class SystemCall(Rule):
    code = "DYN411"
    name = "system-call"
    summary = "A call to a function of the interpreter, the process or the operating system breaks the graph"
    gb = ("GB0007", "GB0208", "GB0008", "GB0156", "GB0147", "GB0059")
    events = (Call, ItemWrite)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())

    def check(self, event: Call | ItemWrite, project: Project) -> Iterable[Violation]:
        """Flag every call, and every change to the environment."""
        if isinstance(event, Call):
            what = f"`{event.callee}()`"
        elif isinstance(event, ItemWrite) and event.name == "os.environ":
            what = "changes to `os.environ`"
        else:
            return
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"Dynamo does not trace {what}, so the graph breaks here",
                help="move it outside the compiled code",
            )

    def fix(self, event: Call | ItemWrite, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Collect garbage and print stacks in eager code only."""
        if isinstance(event, Call) and event.callee in _HOUSEKEEPING:
            return guarded(Scope.of(event, project), event, f"Call `{event.callee}()` only in eager mode")
        return Declined(
            "other code may depend on what the call returns or does; move the call outside the compiled code"
        )
