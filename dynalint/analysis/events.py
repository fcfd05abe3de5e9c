"""Events in the compiled region, which the inference emits for rules to handle.

An event is emitted for code that a compiled root reaches if enough is known about the kinds involved. Branches that
cannot be taken during compilation, such as `if not torch.compiler.is_compiling():`, emit no events.
"""

from __future__ import annotations

import ast
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from dynalint.analysis.records import record

if TYPE_CHECKING:
    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.kinds import Home, Kind, Partial
    from dynalint.analysis.torch_api import Flag

BranchForm = Literal[
    "if", "while", "ifexp", "and", "or", "not", "assert", "comprehension", "chained-comparison", "in", "match"
]
FormatStyle = Literal["percent", "fstring", "format"]


@record(frozen=True, slots=True)
class Position:
    """The kinds of statement around an event in its function. A graph break costs more in some of them.

    A comprehension counts as a loop.
    """

    loop: bool = False
    try_: bool = False
    with_: bool = False


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Event:
    """Something that happens at `node`, inside `statement`, in `function`.

    `condition` is an expression in the same statement that determines whether `node` is evaluated, if its outcome is
    unknown. An example is `weight is not None` for the call in `weight is not None and weight.any()`. If a call has
    more than one possible callee, `condition` is the callee. `others` are the corresponding events for other callers of
    the compiled code that pass a number instead of a tensor, with None for each caller that causes no event.
    """

    node: ast.expr | ast.stmt
    statement: ast.stmt
    function: FunctionInfo
    position: Position
    condition: ast.expr | None = None
    others: tuple[Event | None, ...] = ()


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Branch(Event):
    """Converting a tensor to bool to select a branch. `node` is the tested expression.

    `form` names the construct. An `elif` has the form "if", and its statement is the nested `ast.If`. Each operand in
    `a and b` that is tested is a separate event, except that the operator does not test the last operand if the result
    is used as a value. In `if a and b:`, each operand is a separate event with the form "and". `not t` has the form
    "not", with the operand as `node`. `kind` includes a tensor.
    """

    form: BranchForm
    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Call(Event):
    """A call to something outside the project that a rule watches.

    `callee` is the dotted name, for example "builtins.print", "torch.equal", "logging.Logger.info", "Tensor.item" or
    "list.append". `receiver` is the kind of the object whose method is called. `args` and `keywords` are the arguments'
    kinds, and `result` is the result's kind. `flags` are the flags that the torch data gives for every overload that
    accepts these arguments.
    """

    node: ast.Call
    callee: str
    receiver: Kind | None
    args: tuple[Kind, ...]
    keywords: dict[str, Kind] = field(default_factory=dict)
    result: Kind
    flags: frozenset[Flag] = frozenset()


@record(frozen=True, slots=True, kw_only=True, eq=False)
class InstalledCall(Event):
    """A call into an installed package that no rule watches.

    `callee` is the dotted name of the function or method, and `maker` is the call that created the object of a method.
    `call` has the arguments, and `starred` means that there are more of them. `cause` is the graph break in the code of
    the package that every such call reaches, once it is known.
    """

    node: ast.Call
    callee: str
    maker: Partial | None
    call: Partial
    starred: bool
    cause: Cause | None = None


@record(frozen=True, slots=True)
class Cause:
    """A graph break in an installed package: its place, relative to the package folder, and the message.

    For an extension module, the place is the file, and there is no message. If the call itself breaks the graph, the
    place is empty. `gb` are Dynamo's ids for the break, and `setting` is the option with which Dynamo traces the code,
    if there is one.
    """

    place: str
    message: str
    gb: tuple[str, ...]
    setting: str = ""


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Read(Event):
    """Reading an attribute, other than a method, that is defined outside the project and that a rule watches.

    `name` is a dotted name, as for a callee: "Tensor.grad_fn", "torch.nn.LSTM.hidden_size". `owner` is the kind of the
    object whose attribute is read.
    """

    node: ast.Attribute
    name: str
    owner: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Write(Event):
    """Assigning to an attribute that is defined outside the project and that a rule watches: `t.requires_grad = True`.

    `node` is the target. `name` and `owner` are as in `Read`, and `value` is the attribute's new value.
    """

    node: ast.Attribute
    name: str
    owner: Kind
    value: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Load(Event):
    """Reading a variable or attribute that Dynamo rejects because its value is a sparse tensor or a recurrent layer."""

    node: ast.Name | ast.Attribute
    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Subscript(Event):
    """Reading, assigning or deleting `base[index]`, where the index contains a tensor or a number read from one."""

    node: ast.Subscript
    base: Kind
    index: Kind
    context: Literal["load", "store", "delete"]


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Iteration(Event):
    """Iterating over `node`, which is a tensor, a range or another sequence, in a loop or comprehension."""

    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Format(Event):
    """Formatting a tensor as text. `node` is the formatted expression. `spec` is true if there is a format spec."""

    style: FormatStyle
    kind: Kind
    spec: bool = False


@record(frozen=True, slots=True, kw_only=True, eq=False)
class StateChange(Event):
    """Giving a new value to state that outlives the call: `self.n += 1`, `Model.n = ...`, `global n; n += 1`.

    `home` says where the state is stored. `home.name` is the name of the attribute or variable, and a dotted name such
    as "stats.n" for a nested object. `old` and `new` are the state's kinds before and after. `reads_old` is true if the
    new value is computed from the old one, as in an augmented assignment or when the target appears in the value.
    `fresh` is true if the same call has already set the state, so that nothing remains from an earlier call. `node` is
    the statement.
    """

    home: Home
    old: Kind
    new: Kind
    reads_old: bool
    fresh: bool


@record(frozen=True, slots=True, kw_only=True, eq=False)
class ContainerChange(Event):
    """Changing a container that outlives the call: `self.feats.append(x)`, `CACHE[key] = x`, `names += [x]`.

    `method` is the method's name, "setitem", "delitem" or "iadd". No event is emitted for containers created in the
    same call.
    """

    home: Home
    container: Kind
    method: str
    args: tuple[Kind, ...] = ()


@record(frozen=True, slots=True, kw_only=True, eq=False)
class InplaceChange(Event):
    """Changing a buffer, parameter or tensor attribute of `self` in place.

    Examples are `self.n += 1`, `self.n.add_(1)` and `self.n[i] = v`. `method` is the name of the method called, a name
    such as "iadd" for the operator `+=`, or "setitem".
    """

    home: Home
    tensor: Kind
    method: str


@record(frozen=True, slots=True, kw_only=True, eq=False)
class ItemWrite(Event):
    """Setting or deleting an item of an object defined outside the project.

    `name` is the object's name, such as "os.environ" for `os.environ["NAME"] = value`.
    """

    node: ast.Subscript
    name: str


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Entry(Event):
    """Entering `kind` in a `with` statement. `home` says where it is stored if it existed before the call."""

    node: ast.expr
    kind: Kind
    home: Home | None


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Ordering(Event):
    """Sorting values, or searching them for the smallest or largest, by calling `sorted`, `list.sort`, `min` or `max`.

    `values` is the container, and `elements` is the kind of its elements. `key` is the kind that is compared: the
    result of the key function if there is one, or the elements themselves.
    """

    node: ast.Call
    callee: str
    values: Kind
    elements: Kind
    key: Kind
    has_key: bool


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Operation(Event):
    """Applying an operator, unless all operands are plain Python values, or tensors in arithmetic.

    The operation compares two lists or tuples that contain tensors, repeats a list or tuple by a tensor, or involves an
    instance of a project class. `operator` is the operator's class in `ast`. `right` is None for a unary operator.
    """

    operator: type[ast.operator | ast.unaryop | ast.cmpop]
    left: Kind
    right: Kind | None = None


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Raising(Event):
    """Raising an exception. `node` is the statement."""

    node: ast.Raise


@record(frozen=True, slots=True, kw_only=True, eq=False)
class GlobalRead(Event):
    """Reading a module global that a function in the module changes, with `global` or by setting an item."""

    node: ast.Name
    name: str
    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Assertion(Event):
    """Asserting something other than a tensor or a Python value. `node` is what the assertion tests last."""

    node: ast.expr
    kind: Kind


@record(frozen=True, slots=True, kw_only=True, eq=False)
class Importing(Event):
    """Importing something in compiled code. `node` is the statement."""

    node: ast.Import | ast.ImportFrom


@record(frozen=True, slots=True, kw_only=True, eq=False)
class ClassDefinition(Event):
    """Defining a class in compiled code. `node` is the statement."""

    node: ast.ClassDef


@record(frozen=True, slots=True, kw_only=True, eq=False)
class GeneratorRoot(Event):
    """A compiled function that is a generator. `called` is true if compiled code calls it as well."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    called: bool


@record(frozen=True, slots=True, kw_only=True, eq=False)
class CompilerUse(Event):
    """A reference to a part of torch's compiler in a checked file, in compiled code or elsewhere.

    `function` can be the top level of a module. `name` is the dotted name: "torch.compile", "torch.compiler.disable" or
    "torch._dynamo.testing.CompileCounter", for example. It is "torch.nn.Module.compile" when a project module's
    `compile` method is called.
    """

    node: ast.expr
    name: str
