"""DYN712: builtins, and functions from the standard library or other packages, that Dynamo does not trace."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from dynalint.rulekit import Call, Declined, InstalledCall, Project, Rewrite, Rule, Violation, k, leads_to_raise
from dynalint_rules._code.settings import captures_scalars, captures_shapes

# All of these were run with Dynamo, with arguments that Dynamo knows.
_CALLS: dict[str, str] = {
    "argparse": "ArgumentParser",
    "array": "array",
    "ast": "literal_eval parse",
    "builtins": "bytes bytearray memoryview object property staticmethod classmethod",
    "builtins.str": "maketrans",
    "bytes": "hex split join",
    "cmath": "sqrt phase exp polar isnan log",
    "configparser": "ConfigParser",
    "contextvars": "ContextVar copy_context",
    "contextvars.ContextVar": "get set",
    "decimal": "Decimal getcontext",
    "deque": "rotate",
    "functools": "cmp_to_key cache",
    "hmac": "new",
    "inspect": "getmembers getsource getsourcefile cleandoc",
    "int": "to_bytes",
    "itertools": "combinations_with_replacement",
    "locale": "getlocale",
    "marshal": "dumps",
    "operator": "indexOf setitem",
    "os": "strerror",
    "os.path": "normpath relpath",
    "pprint": "pformat",
    "re": "finditer purge",
    "reprlib": "repr",
    "shlex": "split",
    "statistics": "mean stdev variance mode pstdev pvariance geometric_mean",
    "str": "maketrans",
    "sys": "setrecursionlimit getdefaultencoding gettrace settrace is_finalizing",
    "traceback": "extract_stack",
    "types": "SimpleNamespace MethodType ModuleType GenericAlias",
    "typing": "TypeVar NewType",
    "unicodedata": "normalize",
    "urllib.parse": "quote",
    "weakref": "proxy",
}
# Functions that later releases trace.
_TRACED_LATER = {
    **dict.fromkeys(("contextvars.ContextVar.get", "deque.rotate", "itertools.combinations_with_replacement"), "<2.14"),
    **dict.fromkeys(
        (f"builtins.{name}" for name in "bytes bytearray object staticmethod classmethod".split()), "<2.15"
    ),
    **dict.fromkeys((f"cmath.{name}" for name in _CALLS["cmath"].split()), "<2.15"),
    **dict.fromkeys(("functools.cmp_to_key", "inspect.cleandoc", "operator.indexOf", "operator.setitem"), "<2.15"),
    **dict.fromkeys(("statistics.mode", "types.SimpleNamespace"), "<2.15"),
}
# Packages that Dynamo does not trace at all, so that every call breaks the graph.
_SKIPPED = ("networkx", "onnx", "onnxruntime", "pandas", "sklearn", "tabulate", "tensorflow", "xarray")
# Functions and modules from other packages whose Python code breaks the graph, by package and break. They were run with
# torchvision 0.28, opt_einsum 3.4, pandas 3.1, networkx 3.6, torch-geometric 2.8, torchdiffeq 0.2.5, ptwt 1.0.1, pyro
# 1.9.2, gpytorch 1.15, torchmetrics 1.9, torchaudio 2.11, torch-einops-utils 0.2, vector-quantize-pytorch 1.32,
# beartype 0.23 and pydantic 2. `given` are arguments that would otherwise be computed from the data, with their
# positions and names. Functions `of_batches` do not read data if `batch` is None.
_KNOWN: dict[str, Any] = json.loads(files(__package__).joinpath("library_call.json").read_text(encoding="utf-8"))


def _by_name(table: dict[str, dict[str, str]], tail: str) -> dict[str, str]:
    """Return the breaks in a table, keyed by the full name of the function."""
    return {
        f"{package}.{name}{tail}": gb
        for package, breaks in table.items()
        for gb, names in breaks.items()
        for name in names.split()
    }


# Dynamo settings that may avoid these breaks. This has not been tested.
_CAPTURED = {"GB0036": captures_shapes, "GB0124": captures_scalars}
_OTHERS = {
    **_by_name(_KNOWN["functions"], ""),
    **_by_name(_KNOWN["modules"], ".__call__"),
    **_by_name(_KNOWN["modules"], ".forward"),
    **_by_name({"torchmetrics.classification": _KNOWN["modules"]["torchmetrics.classification"]}, ".update"),
}


class LibraryCall(Rule):
    code = "DYN712"
    name = "library-call"
    summary = "A function of the standard library or another package that Dynamo does not trace breaks the graph"
    gb = (
        *("GB0007", "GB0059", "GB0147", "GB0156", "GB0134", "GB0055", "GB0088", "GB4411", "GB6815", "GB7786"),
        *("GB0008", "GB0036", "GB0124", "GB0157", "GB0170", "GB0207", "GB0208", "GB0257", "GB0294"),
    )
    events = (Call, InstalledCall)
    calls = frozenset(
        {
            *(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split()),
            *(f"{package}.*" for package in _SKIPPED),
            *_OTHERS,
        }
    )

    def check(self, event: Call | InstalledCall, project: Project) -> Iterable[Violation]:
        """Flag the call, unless a setting or its arguments let Dynamo trace it."""
        if leads_to_raise(event, project):
            return
        if isinstance(event, InstalledCall):
            found = _followed(event, project)
        elif event.callee.partition(".")[0] in _SKIPPED:
            found = _skipped(event)
        elif event.callee in _OTHERS:
            found = _listed(event, project)
        else:
            found = _untraced(event)
        if found is not None:
            yield found

    def fix(self, event: Call | InstalledCall, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Offer no fix, because the right place to compute the value depends on the arguments."""
        if isinstance(event, InstalledCall) or event.callee in _OTHERS:
            return Declined("the call has no general equivalent in torch operations; move it out of the compiled code")
        return Declined("compute its value in the constructor or at module level, if its arguments are available there")


def _followed(event: InstalledCall, project: Project) -> Violation | None:
    """Return the violation for a call to installed code that was analysed, or None if it does not break the graph."""
    cause = event.cause
    if cause is None or any(_CAPTURED[gb](project, event.function) for gb in cause.gb if gb in _CAPTURED):
        return None
    if not cause.message:
        why = f"breaks the graph, because it is implemented in the extension module {cause.place}"
    elif cause.place:
        why = f"always runs {cause.place}: {cause.message}"
    else:
        why = f"breaks the graph: {cause.message}"
    return Violation(
        event.node,
        f"`{_shown(event.callee)}` {why}",
        help="call it outside the compiled code, or write it with torch operations",
        gb=cause.gb,
        setting=cause.setting,
    )


def _skipped(event: Call) -> Violation | None:
    """Return the violation for a call to a package that Dynamo skips as a whole."""
    own = event.callee.endswith(".__call__") and isinstance(event.receiver, k.Instance)  # its class defines the call
    if own or event.callee.endswith(".__instancecheck__"):
        return None
    package = event.callee.partition(".")[0]
    return Violation(
        event.node,
        f"Dynamo skips all code in `{package}`, so the call to `{_shown(event.callee)}` breaks the graph",
        help="call it outside the compiled code",
    )


def _listed(event: Call, project: Project) -> Violation | None:
    """Return the violation for a call to another package's function whose code is known to break the graph."""
    captured = _CAPTURED.get(_OTHERS[event.callee])
    if (captured is not None and captured(project, event.function)) or _is_spared(event):
        return None
    if event.receiver is not None and not isinstance(event.receiver, k.Object):
        return None  # A project class may override `forward`.
    return Violation(
        event.node,
        f"Dynamo cannot trace the code of `{_shown(event.callee)}`, which breaks the graph",
        help="call it outside the compiled code, or write it with torch operations",
        gb=(_OTHERS[event.callee],),
    )


def _untraced(event: Call) -> Violation:
    """Return the violation for a call to a function of the standard library."""
    return Violation(
        event.node,
        f"Dynamo does not trace `{event.callee.removeprefix('builtins.')}()`, so the call breaks the graph",
        help="compute its value earlier: in the constructor, or at module level",
        torch=_TRACED_LATER.get(event.callee, ""),
    )


def _shown(callee: str) -> str:
    return callee.removesuffix(".__call__").removesuffix(".__init__")


def _is_spared(event: Call) -> bool:
    """Return whether an argument provides what the function would otherwise read from the data."""
    if event.callee.rpartition(".")[2] in _KNOWN["of_batches"]:
        batch = event.args[1] if len(event.args) > 1 else event.keywords.get("batch", k.NONE)
        if k.only_tensor(batch) is None:
            return True
    position, names = _KNOWN["given"].get(event.callee, (0, ()))
    given = [*event.args[position : position + 1], *(event.keywords[name] for name in names if name in event.keywords)]
    return bool(names) and any(kind != k.NONE for kind in given)
