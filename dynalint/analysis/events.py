"""What happens in a region: the events that the inference emits and the rules listen to.

An event is emitted for code that a compiled root reaches, when the kinds of the values in it are known well enough to
say what happens. Code under `if not torch.compiler.is_compiling():` and other branches that cannot be taken while
compiling emits nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.kinds import Home, Kind
    from dynalint.analysis.torch_api import Flag

BranchForm = Literal[
    "if", "while", "ifexp", "and", "or", "not", "assert", "comprehension", "chained-comparison", "in", "match"
]
FormatStyle = Literal["percent", "fstring", "format"]


@dataclass(frozen=True, slots=True)
class Position:
    """Which statements an event stands in, within its own function; a break there costs more in some of them."""

    loop: bool = False
    try_: bool = False
    with_: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Event:
    """Something that happened at `node`, inside `statement`, in `function`.

    `condition` is an expression of the same statement on which it hangs whether `node` is evaluated at all, where that
    is not known: `weight is not None` for the call in `weight is not None and weight.any()`. For a call of one of
    several things it is what is called. `others` is what it is for other callers of the
    compiled code, who pass a number where this one passes a tensor; None where it does not happen then.
    """

    node: ast.expr | ast.stmt
    statement: ast.stmt
    function: FunctionInfo
    position: Position
    condition: ast.expr | None = None
    others: tuple[Event | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branch(Event):
    """A tensor was turned into a bool to decide which way to go: `node` is the expression that is tested.

    `form` says by what; an `elif` is an "if" whose statement is the nested `ast.If`. In `a and b` each operand that is
    tested is one event (the last operand of a value `a and b` is not tested by the operator itself); in
    `if a and b:` each of the operands is one event of form "and"; `not t` is "not", with `node` the operand.
    `kind` holds a tensor.
    """

    form: BranchForm
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call(Event):
    """A call of something outside the project that a rule watches for.

    `callee` is the dotted name: "builtins.print", "torch.equal", "logging.Logger.info", "Tensor.item", "list.append".
    `receiver` is the kind of the object for a method. `args` and `keywords` are the kinds of the arguments;
    `result` that of the result. `flags` are what the torch data says of every way to call it with such arguments.
    """

    node: ast.Call
    callee: str
    receiver: Kind | None
    args: tuple[Kind, ...]
    keywords: dict[str, Kind] = field(default_factory=dict)
    result: Kind
    flags: frozenset[Flag] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read(Event):
    """An attribute, other than a method, of something outside the project was read that a rule watches for.

    `name` is dotted like a callee: "Tensor.grad_fn", "torch.nn.LSTM.hidden_size". `owner` is what it was read of.
    """

    node: ast.Attribute
    name: str
    owner: Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Write(Event):
    """An attribute of something outside the project was set that a rule watches for: `t.requires_grad = True`.

    `node` is the target; `name` and `owner` are as in `Read`, `value` is what the attribute becomes.
    """

    node: ast.Attribute
    name: str
    owner: Kind
    value: Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load(Event):
    """A variable or attribute is read that holds what Dynamo refuses: a sparse tensor, or a recurrent layer."""

    node: ast.Name | ast.Attribute
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subscript(Event):
    """`base[index]` was read, stored or deleted, where a tensor or a number read from one is part of the index."""

    node: ast.Subscript
    base: Kind
    index: Kind
    context: Literal["load", "store", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Iteration(Event):
    """A loop or comprehension goes over a tensor, a range, or another sequence: `node`."""

    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Format(Event):
    """A tensor is formatted into text; `node` is the formatted expression. `spec` tells that a format spec is given."""

    style: FormatStyle
    kind: Kind
    spec: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateChange(Event):
    """State that outlives the call gets another value: `self.n += 1`, `Model.n = ...`, `global n; n += 1`.

    `home` says where the state lives (`home.name` is the attribute or variable name, dotted for a nested object:
    "stats.n"), `old` and `new` what it was and becomes. `reads_old` tells that the new value is computed from the old
    one (an augmented assignment, or the same target read in the value); `fresh` that the same call has already set it
    before, so that nothing of an earlier call is left in it. `node` is the statement.
    """

    home: Home
    old: Kind
    new: Kind
    augmented: bool
    reads_old: bool
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContainerChange(Event):
    """A container that outlives the call is changed: `self.feats.append(x)`, `CACHE[key] = x`, `names += [x]`.

    `method` is the method's name, "setitem", "delitem" or "iadd". Containers made in the same call emit nothing.
    """

    home: Home
    container: Kind
    method: str
    args: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InplaceChange(Event):
    """A buffer, parameter or tensor attribute of `self` is changed in place.

    By `self.n += 1`, `self.n.add_(1)` or `self.n[i] = v`.

    `method` is the method's name, "iadd"-like for an operator ("+=" gives "iadd") or "setitem".
    """

    home: Home
    tensor: Kind
    method: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemWrite(Event):
    """An item of something outside the project is set or deleted: `os.environ["NAME"] = value`, `name` "os.environ"."""

    node: ast.Subscript
    name: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry(Event):
    """A `with` statement enters `kind`; `home` says where it lives if it was there before the call."""

    node: ast.expr
    kind: Kind
    home: Home | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordering(Event):
    """Values are put in order or the first of them is looked for: `sorted`, `list.sort`, `min`, `max`, by `callee`.

    `values` are what holds them, `elements` each of them; `key` is what is compared: what the key function gives, or
    the values themselves.
    """

    node: ast.Call
    callee: str
    values: Kind
    elements: Kind
    key: Kind
    has_key: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation(Event):
    """An operator between two values that is neither arithmetic on tensors nor on plain values.

    A comparison of two lists or tuples one of which holds tensors, a list or tuple repeated as often as a tensor says,
    or an operator with an instance of a class of the project. `operator` is the class of the operator in `ast`; `right`
    is None where there is one operand.
    """

    operator: type[ast.operator | ast.unaryop | ast.cmpop]
    left: Kind
    right: Kind | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Raising(Event):
    """An exception is raised; `node` is the statement."""

    node: ast.Raise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GlobalRead(Event):
    """A global of the module is read that some function of the module sets, by `global`, or an item of it."""

    node: ast.Name
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Importing(Event):
    """Something is imported within the region; `node` is the statement."""

    node: ast.Import | ast.ImportFrom


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassDefinition(Event):
    """A class is defined within the region; `node` is the statement."""

    node: ast.ClassDef


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GeneratorRoot(Event):
    """A function that is compiled by itself is a generator; `called` tells that compiled code calls it as well."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    called: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompilerUse(Event):
    """A checked file names something of torch's compiler, in compiled code or not; `function` may be a module's top.

    `name` is the dotted name of it: "torch.compile", "torch.compiler.disable", "torch._dynamo.testing.CompileCounter";
    "torch.nn.Module.compile" for the method of a module of the project.
    """

    node: ast.expr
    name: str
