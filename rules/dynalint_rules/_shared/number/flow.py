"""The consequences of keeping a tensor instead of its number, which depend on how it is used."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint.rulekit import Refusal, Safety, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import SHOWS
from dynalint_rules._code.precision import is_double, is_nonzero
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.size_arguments import SIZES

_FRACTIONS = frozenset("mean nanmean std var norm logsumexp".split())
DIVIDING = (ast.Div, ast.FloorDiv, ast.Mod)
_NUMBERS = ("builtins.int", "builtins.float", "builtins.bool", "builtins.round")


def is_whole(kind: k.Kind) -> bool:
    """Return whether a value is known to be a Python int that Dynamo knows during tracing."""
    return all(isinstance(one, k.Value) and one.type == "int" and one.source != "data" for one in kind.members)


@dataclass
class NumberFlow:
    """The `conditions` for keeping the tensor and the `changes` in behaviour, as clauses.

    `edits` are the changes required at the uses, and `imports` are the imports that these need. `leaves` are the codes
    of decisions on the tensor that other rules rewrite. `meets` is true if there are other uses. `widens` is true if
    the number may decide the dtype of a tensor that has no dimensions, which a longer form converts it to. `recorded`
    is true if the module keeps the tensor after the call.
    """

    conditions: dict[str, None] = field(default_factory=dict)
    changes: dict[str, None] = field(default_factory=dict)
    edits: list[rw.Change] = field(default_factory=list)
    imports: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    meets: bool = False
    widens: bool = False
    recorded: bool = False

    def add(self, other: NumberFlow) -> None:
        """Add what follows from the uses elsewhere."""
        self.conditions |= other.conditions
        self.changes |= other.changes
        self.edits += other.edits
        self.imports = self.imports or other.imports
        self.leaves = self.leaves or other.leaves
        self.meets |= other.meets
        self.widens |= other.widens
        self.recorded |= other.recorded

    @property
    def safety(self) -> Safety:
        """The rewrite's safety."""
        return "unsafe" if self.changes else "conditional" if self.conditions else "safe"

    @property
    def clauses(self) -> tuple[str, ...]:
        """All clauses to show with the fix, starting with the changes."""
        return (*self.changes, *self.conditions)


@dataclass
class Follower:
    """The state while following a number to its uses.

    `functions` are the functions that returned it on the way here, and `targets` are the names that it was assigned to.
    `buffer` is the attribute that will hold a tensor, if any. `converted` is true if it is float32 in every model. If a
    followed name may also be a number, `mixed` are changes that hold for both, and otherwise it is None. `stored` is
    true if the number is in a tensor that the module stores, so that every run sees it.
    """

    scope: Scope
    flow: NumberFlow = field(default_factory=NumberFlow)
    functions: frozenset[str] = frozenset()
    double: bool = False
    wide: bool = False
    converted: bool = False
    targets: set[ast.Name] = field(default_factory=set)
    buffer: str = ""
    mixed: list[rw.Change] | None = None
    stored: bool = False

    def rounded(self, operation: ast.BinOp, node: ast.expr, other: k.Kind) -> None:
        """Record where arithmetic in the tensor's precision differs from Python's, which uses doubles."""
        shown = self.scope.quote(operation)
        self.flow.conditions[f"{shown} is the same up to rounding"] = None
        divides = isinstance(operation.op, DIVIDING) and as_tensor(other) is None
        if divides and (node is operation.right or not is_nonzero(other)):
            self.flow.conditions[f"{self.scope.quote(operation.right)} is not zero in {shown}"] = None

    def widen(self, node: ast.expr, dtype: k.DType | None) -> None:
        """Convert a number that others are added to, which Python does without limits, to 32 bits or 64."""
        if dtype == "float" or (dtype is None and _is_fraction(node)):
            self.flow.edits.append((node, rw.calling("float")))
        elif dtype != "int" or not self.wide:
            raise Refusal(
                f"sums of {self.scope.quote(node)} may not fit its dtype; convert it with `.float()` or `.long()`"
            )

    def keep_narrow(self, operation: ast.BinOp, node: ast.expr, other: ast.expr, dtype: k.DType | None) -> None:
        """Convert a float32 number to the dtype of another tensor without dimensions, such as a bfloat16 loss.

        Otherwise, it would decide the dtype of the result, as the quotient of a counter also does.
        """
        tensor, holder = self.scope.tensor(other), _holder_of_dtype(self.scope, other)
        counted = self.wide and isinstance(node, ast.BinOp)  # float32, as in `count + 1e-6`
        plain = counted or not self.wide or isinstance(node, ast.Name | ast.Attribute | ast.Call)
        if holder is None or tensor is None or not (self.converted or counted) or not plain:
            return
        if dtype != "float" or tensor.dtype != "float":
            return
        self.flow.widens |= tensor.rank is None
        if tensor.rank == 0 or (tensor.rank is None and self.scope.careful):
            converted = rw.calling("to", rw.name(f"{ast.unparse(holder)}.dtype"))
            if self.mixed is None:
                # A count may be larger than any float16, but the quotient by it is not.
                self.flow.edits.append((operation if counted else node, converted))
            else:
                self.mixed.append((operation, converted))

    def meet(self, tensor: k.Tensor | None, dtype: k.DType | None, where: ast.expr) -> None:
        """Record the conditions under which a tensor combined with the number keeps its dtype.

        A number in the same category as the tensor never changes the dtype. Neither does a 0-dim tensor, unless the
        other tensor is 0-dim as well. If the category is higher, a 0-dim tensor determines the dtype, whereas a number
        gives the default dtype.
        """
        if self.converted and dtype == "float" and is_double(where):
            raise Refusal(f"{self.scope.quote(where)} is computed in float64, and the number would be less precise")
        ranks = ("bool", "int", "float", "complex")
        if tensor is not None and tensor.dtype is not None and dtype is not None:
            by_category = ranks.index(dtype) - ranks.index(tensor.dtype)
            if by_category <= 0 and (tensor.rank or (by_category < 0 and dtype in ("bool", "int"))):
                return
            if by_category > 0 and dtype == "float" and self.double:
                shown = self.scope.quote(where)
                raise Refusal(f"{shown} would become a float64 tensor; convert the value with `.float()` first")
        self.flow.conditions[f"the dtype of {self.scope.quote(where)} stays the same"] = None

    def refuse(self, parent: ast.AST, node: ast.expr) -> None:
        """Raise a refusal that explains why a use does not accept a tensor.

        Raises:
            Refusal: Always.
        """
        called = callee(self.scope, parent) if isinstance(parent, ast.Call) else ""
        raise Refusal(_why_not(self.scope, parent, node, called))


def _is_fraction(node: ast.expr) -> bool:
    """Return whether a number is read from a mean, for example, which integers do not have."""
    called = (one.attr for one in walk(node) if isinstance(one, ast.Attribute))
    return not _FRACTIONS.isdisjoint(called)


def _holder_of_dtype(scope: Scope, node: ast.expr) -> ast.Name | ast.Attribute | None:
    """Return a name with the dtype of a tensor: the tensor itself, or what a sum or mean adds up."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value if callee(scope, node) in ("Tensor.sum", "Tensor.mean") and not node.keywords else node
    return node if isinstance(node, ast.Name | ast.Attribute) else None


def _why_not(scope: Scope, parent: ast.AST, node: ast.expr, callee: str) -> str:
    """Return the reason, with advice for changing the code by hand. `callee` is the dotted name that `parent` calls."""
    quote, shown = scope.quote, scope.quote(node)
    if isinstance(parent, ast.Subscript | ast.Slice):
        return f"{shown} is an index or a slice bound; use `index_select`, or a mask over the whole dimension"
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.BoolOp | ast.Assert) or _is_not(parent):
        return (
            f"{shown} decides a branch, and a tensor would also break the graph there; select with `torch.where` "
            "instead"
        )
    if isinstance(parent, ast.Call) and callee.startswith(SHOWS):
        return f"{shown} is only printed; move the statement under `if not torch.compiler.is_compiling():`"
    if isinstance(parent, ast.Call) and callee in SIZES:
        return (
            f"{quote(parent)} takes {shown} as a number that determines a shape; use an upper bound and mask "
            "the extra elements, or set `torch._dynamo.config.capture_scalar_outputs = True`"
        )
    if isinstance(parent, ast.Call) and callee not in _NUMBERS:
        return f"{quote(parent)} takes {shown} as a number; pass the tensor's `.detach()` if a tensor is acceptable"
    if isinstance(parent, ast.Expr):
        return f"the value of {shown} is not used; delete the statement"
    if isinstance(parent, ast.expr | ast.stmt):
        return f"{quote(parent)} needs {shown} as a number; read it after the compiled function has returned"
    return f"{shown} is needed as a number; read it after the compiled function has returned"


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
