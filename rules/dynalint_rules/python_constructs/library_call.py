"""DYN712: builtins and functions of the standard library that Dynamo does not trace."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

# Each was run under Dynamo, with arguments that it could have worked out.
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


class LibraryCall(Rule):
    """Call a builtin, or a function of the standard library, that Dynamo does not trace.

    ## What it flags

    Calls such as `bytes(...)`, `object()`, `decimal.Decimal(...)`, `types.SimpleNamespace(...)`, `cmath.sqrt`,
    `statistics.mean`, `functools.cmp_to_key`, `itertools.combinations_with_replacement`, `re.finditer`,
    `ast.literal_eval`, `deque.rotate`, `contextvars.ContextVar.get`, and others like them that were seen to break, in
    code that is compiled. For `ctypes` and libraries in C there is DYN615.

    Not flagged: what Dynamo traces or works out, which is most of `math`, `re`, `itertools`, `functools`, `operator`,
    `collections`, `enum`, `dataclasses`, `fractions`, `string` and `textwrap`, and the methods of `str`, `list` and
    `dict`.

    ## Why

    These are written in C, or lead to something that is. Dynamo traces the bytecode of Python functions and has code of
    its own for the C functions that it knows; at any other it ends the graph, even if all arguments are constants.

    ## Example

    ```python
    def forward(self, x):
        options = types.SimpleNamespace(scale=2)
        return self.fc(x) * options.scale
    ```

    Use instead:

    ```python
    @dataclass
    class Options:
        scale: int


    def forward(self, x):
        options = Options(scale=2)
        return self.fc(x) * options.scale
    ```

    ## How it is rewritten

    It is not: mostly the value can be worked out before, in the constructor or at the top level of the module.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB0007: `Attempted to call function marked as skipped`, GB0059: `Failed to trace builtin operator`, GB0147:
    `Unsupported function call`, GB0156: `Unsupported method call`; GB0134, GB0055, GB4411 and GB7786 for single ones.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0007.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0147.html
    """

    code = "DYN712"
    name = "library-call"
    summary = "a function of the standard library that Dynamo does not trace ends the graph"
    gb = ("GB0007", "GB0059", "GB0147", "GB0156", "GB0134", "GB0055", "GB4411", "GB7786")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            shown = event.callee.removeprefix("builtins.")
            yield Violation(
                event.node,
                f"Dynamo does not trace `{shown}()`, and ends the graph at it",
                help="work its value out before: in the constructor, or at the top level of the module",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: where the value can be worked out depends on what it is made of."""
        return Declined("work its value out in the constructor or at the top level, if what it is made of is there")

    examples = (
        Example(
            name="namespace",
            code=forward(
                """
                h = self.fc(x)
                options = types.SimpleNamespace(scale=2)  # DYN712
                return h * options.scale
                """,
                head="import types",
            ),
            declined="in the constructor",
        ),
        Example(
            name="sentinel",
            code=forward(
                """
                h = self.fc(x)
                missing = object()  # DYN712
                return h * (2 if missing is None else 3)
                """,
            ),
        ),
        Example(
            name="bytes",
            code=forward(
                """
                h = self.fc(x)
                key = bytes([1, 2])  # DYN712
                return h + len(key)
                """,
            ),
        ),
        Example(
            name="decimal",
            code=forward(
                """
                h = self.fc(x)
                scale = decimal.Decimal("1.5")  # DYN712
                return h + 1
                """,
                head="import decimal",
            ),
        ),
        Example(
            name="statistics",
            code=forward(
                """
                h = self.fc(x)
                return h + statistics.mean([1, 2, 3])  # DYN712
                """,
                head="import statistics",
            ),
        ),
        Example(
            name="complex-numbers",
            code=forward(
                """
                h = self.fc(x)
                return h + cmath.sqrt(3).real  # DYN712
                """,
                head="import cmath",
            ),
        ),
        Example(
            name="combinations",
            code=forward(
                """
                h = self.fc(x)
                pairs = itertools.combinations_with_replacement([1, 2], 2)  # DYN712
                return h + 1
                """,
                head="import itertools",
            ),
        ),
        Example(
            name="context-variable",
            code=forward(
                """
                h = self.fc(x)
                return h + SCALE.get()  # DYN712
                """,
                head="""
                import contextvars

                SCALE = contextvars.ContextVar("SCALE", default=2)
                """,
            ),
        ),
        Example(
            name="rotated-deque",
            code=forward(
                """
                parts = deque([self.fc(x), x])
                parts.rotate(1)  # DYN712
                return parts[0] + 1
                """,
                head="from collections import deque",
            ),
        ),
        Example(
            name="method-made-by-hand",
            code=forward(
                """
                h = self.fc(x)
                method = types.MethodType(scaled, self)  # DYN712
                return method(h)
                """,
                head="""
                import types


                def scaled(model, value):
                    return value * 2
                """,
            ),
        ),
        Example(
            name="what-is-traced",
            torch=">=2.13",
            code=forward(
                """
                pairs = list(itertools.combinations([1, 2, 3], 2)) + list(itertools.permutations([1, 2]))
                name = re.sub("a", "b", "aba") + textwrap.dedent(" a")
                scale = math.comb(4, 2) + functools.reduce(operator.mul, [1, 2]) + statistics.median([1, 2])
                return self.fc(x) * scale + len(pairs) + len(name) + float(fractions.Fraction(1, 2))
                """,
                head="""
                import fractions
                import functools
                import itertools
                import math
                import operator
                import re
                import statistics
                import textwrap
                """,
            ),
        ),
        Example(
            name="at-the-top-level",
            code=forward(
                "return self.fc(x) * OPTIONS.scale",
                head="""
                import types

                OPTIONS = types.SimpleNamespace(scale=2)
                """,
            ),
        ),
    )
