"""DYN712: builtins, and functions of the standard library and other packages, that Dynamo does not trace."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.kinds import Object
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.settings import captures_scalars, captures_shapes

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
# Packages whose own Python code ends the graph, each run with torchvision 0.28, opt_einsum 3.4, pandas 3.1 and
# networkx 3.6: under which name, by which break, what.
_PACKAGES: dict[str, dict[str, str]] = {
    "networkx": {"GB0007": "DiGraph Graph"},
    "opt_einsum": {"GB0156": "contract contract_expression contract_path"},
    "pandas": {"GB0008": "DataFrame Series"},
    "torchvision.ops": {"GB0036": "batched_nms nms remove_small_boxes", "GB0007": "roi_align"},
    "torchvision.ops.boxes": {"GB0036": "batched_nms nms remove_small_boxes"},
    "torchvision.transforms.functional": {"GB0036": "perspective"},
}
# Modules, by the break in their call. What draws numbers reads them into Python.
_TRANSFORMS = {
    "GB0007": "RandomChoice RandomOrder",
    "GB0124": "AutoAugment ColorJitter GaussianBlur RandAugment RandomAdjustSharpness RandomAffine RandomAutocontrast "
    "RandomCrop RandomEqualize RandomInvert RandomPosterize RandomResizedCrop RandomRotation RandomSolarize "
    "TrivialAugmentWide",
    "GB0170": "Normalize RandomApply RandomErasing RandomGrayscale RandomHorizontalFlip RandomPerspective "
    "RandomVerticalFlip",
}
_SECOND_TRANSFORMS = {
    "GB0124": "ColorJitter GaussianBlur RandomAffine RandomChoice RandomCrop RandomResizedCrop RandomRotation",
    "GB0170": "RandomApply RandomErasing RandomGrayscale RandomHorizontalFlip RandomInvert RandomPerspective "
    "RandomSolarize RandomVerticalFlip",
}
_MODULES: dict[str, dict[str, str]] = {
    "torchvision.ops": {"GB0007": "RoIAlign"},
    "torchvision.transforms": _TRANSFORMS,
    "torchvision.transforms.transforms": _TRANSFORMS,
    "torchvision.transforms.v2": _SECOND_TRANSFORMS,
}


def _by_name(table: dict[str, dict[str, str]], tail: str) -> dict[str, str]:
    """Return the breaks of a table by the full name of what is called."""
    return {
        f"{package}.{name}{tail}": gb
        for package, breaks in table.items()
        for gb, names in breaks.items()
        for name in names.split()
    }


# What a setting of Dynamo may do away with: nothing is known of what comes of it then.
_CAPTURED = {"GB0036": captures_shapes, "GB0124": captures_scalars}
_OTHERS = {**_by_name(_PACKAGES, ""), **_by_name(_MODULES, ".__call__")}


class LibraryCall(Rule):
    """Call a builtin, or a function of the standard library or of some other package, that Dynamo does not trace.

    ## What it flags

    Calls such as `bytes(...)`, `object()`, `decimal.Decimal(...)`, `types.SimpleNamespace(...)`, `cmath.sqrt`,
    `statistics.mean`, `functools.cmp_to_key`, `itertools.combinations_with_replacement`, `re.finditer`,
    `ast.literal_eval`, `deque.rotate`, `contextvars.ContextVar.get`, and others like them that were seen to break, in
    code that is compiled. For `ctypes` and libraries in C there is DYN615.

    Also functions and modules of other packages whose Python code was seen to end the graph: `torchvision.ops.nms` and
    `roi_align`, the transforms of torchvision that draw numbers (`ColorJitter`, `RandomCrop`, `GaussianBlur`, ...) and
    its `Normalize`, `opt_einsum.contract`, a `DataFrame` of pandas, a `Graph` of networkx.

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
    In other packages also GB0008: `Attempted to inline function marked as skipped`, GB0036: `Dynamic shape operator`,
    GB0124: `Unsupported Tensor.item() call`, GB0170: `Data-dependent branching`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0007.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0147.html
    """

    code = "DYN712"
    name = "library-call"
    summary = "a function of the standard library or another package that Dynamo does not trace ends the graph"
    gb = (
        *("GB0007", "GB0059", "GB0147", "GB0156", "GB0134", "GB0055", "GB4411", "GB7786"),
        *("GB0008", "GB0036", "GB0124", "GB0170"),
    )
    events = (Call,)
    calls = frozenset({*(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split()), *_OTHERS})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if not isinstance(event, Call) or leads_to_raise(event, project):
            return
        if event.callee in _OTHERS:
            captured = _CAPTURED.get(_OTHERS[event.callee])
            if captured is not None and captured(project, event.function):
                return
            # A class of the project that inherits from a transform may well call something else.
            if event.receiver is None or isinstance(event.receiver, Object):
                yield Violation(
                    event.node,
                    f"the code of `{event.callee.removesuffix('.__call__')}` cannot be traced, and ends the graph",
                    help="call it outside of the compiled code, or write what it does with operations of torch",
                    gb=(_OTHERS[event.callee],),
                )
        else:
            shown = event.callee.removeprefix("builtins.")
            yield Violation(
                event.node,
                f"Dynamo does not trace `{shown}()`, and ends the graph at it",
                help="work its value out before: in the constructor, or at the top level of the module",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: where the value can be worked out depends on what it is made of."""
        if isinstance(event, Call) and event.callee in _OTHERS:
            return Declined("what it does has no one form in operations of torch; call it outside of the compiled code")
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
