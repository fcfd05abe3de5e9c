"""Events in the compiled region, which the inference emits and rules listen to.

An event is emitted for code that a compiled root reaches, once the kinds of its values are known well enough. Code
under `if not torch.compiler.is_compiling():` and other branches that cannot be taken while compiling emits nothing.
"""

from __future__ import annotations

import ast
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from dynalint.analysis.records import record

if TYPE_CHECKING:
    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.kinds import Home, Kind
    from dynalint.analysis.torch_api import Flag

BranchForm = Literal[
    "if", "while", "ifexp", "and", "or", "not", "assert", "comprehension", "chained-comparison", "in", "match"
]
FormatStyle = Literal["percent", "fstring", "format"]


@record(frozen=True, slots=True)
class Position:
    """The statements around an event in its function (a comprehension is a loop). In some, a graph break costs more."""

    loop: bool = False
    try_: bool = False
    with_: bool = False


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Event:
    """Something that happens at `node`, inside `statement`, in `function`.

    `condition` is an expression in the same statement that decides whether `node` is evaluated, if that is not known:
    `weight is not None` for the call in `weight is not None and weight.any()`. If a call has several possible callees,
    it is the callee. `others` is the event for other callers of the compiled code, which pass a number instead of a
    tensor; None if nothing happens for them.
    """

    node: ast.expr | ast.stmt
    statement: ast.stmt
    function: FunctionInfo
    position: Position
    condition: ast.expr | None = None
    others: tuple[Event | None, ...] = ()


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Branch(Event):
    """A tensor is converted to bool to decide a branch: `node` is the expression tested.

    `form` names the construct; an `elif` is an "if" whose statement is the nested `ast.If`. In `a and b` each operand
    that is tested is one event (the operator itself does not test the last operand of a value `a and b`). In `if a and
    b:` each operand is one event of the form "and". `not t` has the form "not", with the operand as `node`. `kind`
    contains a tensor.
    """

    form: BranchForm
    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Call(Event):
    """A call to something outside the project that a rule watches.

    `callee` is the dotted name: "builtins.print", "torch.equal", "logging.Logger.info", "Tensor.item", "list.append".
    `receiver` is the kind of the object whose method is called. `args` and `keywords` are the kinds of the arguments,
    `result` is the kind of the result. `flags` are those that the torch data gives for every overload that accepts
    these arguments.
    """

    node: ast.Call
    callee: str
    receiver: Kind | None
    args: tuple[Kind, ...]
    keywords: dict[str, Kind] = field(default_factory=dict)
    result: Kind
    flags: frozenset[Flag] = frozenset()


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Read(Event):
    """A read of an attribute outside the project, other than a method, that a rule watches.

    `name` is dotted like a callee: "Tensor.grad_fn", "torch.nn.LSTM.hidden_size". `owner` is the kind of the object
    that is read.
    """

    node: ast.Attribute
    name: str
    owner: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Write(Event):
    """A store to an attribute outside the project that a rule watches: `t.requires_grad = True`.

    `node` is the target. `name` and `owner` are as in `Read`, and `value` is the new value of the attribute.
    """

    node: ast.Attribute
    name: str
    owner: Kind
    value: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Load(Event):
    """A read of a variable or attribute that Dynamo rejects because the value is a sparse tensor or recurrent layer."""

    node: ast.Name | ast.Attribute
    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Subscript(Event):
    """`base[index]` is read, stored or deleted, and the index contains a tensor or a number read from one."""

    node: ast.Subscript
    base: Kind
    index: Kind
    context: Literal["load", "store", "delete"]


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Iteration(Event):
    """A loop or comprehension iterates over `node`: a tensor, a range, or another sequence."""

    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Format(Event):
    """A tensor is formatted as text; `node` is the formatted expression. `spec` is true if there is a format spec."""

    style: FormatStyle
    kind: Kind
    spec: bool = False


@record(frozen=True, slots=True, kw_only=True, eq=False)
class StateChange(Event):
    """State that outlives the call gets a new value: `self.n += 1`, `Model.n = ...`, `global n; n += 1`.

    `home` says where the state is stored (`home.name` is the name of the attribute or variable, dotted for a nested
    object: "stats.n"). `old` and `new` are its kinds before and after. `reads_old` is true if the new value is computed
    from the old one (an augmented assignment, or the target appears in the value). `fresh` is true if the same call has
    already set it, so that nothing remains from an earlier call. `node` is the statement.
    """

    home: Home
    old: Kind
    new: Kind
    augmented: bool
    reads_old: bool
    fresh: bool


@record(frozen=True, slots=True, kw_only=True, eq=False)
class ContainerChange(Event):
    """A container that outlives the call is changed: `self.feats.append(x)`, `CACHE[key] = x`, `names += [x]`.

    `method` is the method's name, "setitem", "delitem" or "iadd". Containers created in the same call emit nothing.
    """

    home: Home
    container: Kind
    method: str
    args: tuple[Kind, ...] = ()


@record(frozen=True, slots=True, kw_only=True, eq=False)
class InplaceChange(Event):
    """A buffer, parameter or tensor attribute of `self` is changed in place.

    Examples are `self.n += 1`, `self.n.add_(1)` and `self.n[i] = v`. `method` is the method's name, a name like "iadd"
    for an operator ("+=" gives "iadd"), or "setitem".
    """

    home: Home
    tensor: Kind
    method: str


@record(frozen=True, slots=True, kw_only=True, eq=False)
class ItemWrite(Event):
    """An item of something outside the project is set or deleted: `os.environ["NAME"] = value`, `name` "os.environ"."""

    node: ast.Subscript
    name: str


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Entry(Event):
    """A `with` statement enters `kind`; `home` says where it is stored if it existed before the call."""

    node: ast.expr
    kind: Kind
    home: Home | None


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Ordering(Event):
    """Values are sorted, or searched for the first one, by `callee`: `sorted`, `list.sort`, `min` or `max`.

    `values` is the container and `elements` the kind of its elements. `key` is the kind compared: the result of the key
    function, or the elements themselves.
    """

    node: ast.Call
    callee: str
    values: Kind
    elements: Kind
    key: Kind
    has_key: bool


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Operation(Event):
    """An operator applied to values that are neither all plain nor arithmetic on tensors.

    This is a comparison of two lists or tuples that contain tensors, a list or tuple repeated by a tensor, or an
    operator with an instance of a project class. `operator` is the class of the operator in `ast`; `right` is None for
    a unary operator.
    """

    operator: type[ast.operator | ast.unaryop | ast.cmpop]
    left: Kind
    right: Kind | None = None


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Raising(Event):
    """An exception is raised; `node` is the statement."""

    node: ast.Raise


@record(frozen=True, slots=True, kw_only=True, eq=False)
class GlobalRead(Event):
    """A read of a module global that some function of the module changes, by `global` or by setting an item."""

    node: ast.Name
    name: str
    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Importing(Event):
    """An import within the region; `node` is the statement."""

    node: ast.Import | ast.ImportFrom


@record(frozen=True, slots=True, kw_only=True, eq=False)
class ClassDefinition(Event):
    """A class definition within the region; `node` is the statement."""

    node: ast.ClassDef


@record(frozen=True, slots=True, kw_only=True, eq=False)
class GeneratorRoot(Event):
    """A compiled function is a generator; `called` is true if compiled code calls it as well."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    called: bool


@record(frozen=True, slots=True, kw_only=True, eq=False)
class CompilerUse(Event):
    """A checked file refers to a part of torch's compiler, in compiled code or not.

    `function` may be the top level of a module. `name` is the dotted name: "torch.compile", "torch.compiler.disable",
    "torch._dynamo.testing.CompileCounter", or "torch.nn.Module.compile" for the method of a module of the project.
    """

    node: ast.expr
    name: str
