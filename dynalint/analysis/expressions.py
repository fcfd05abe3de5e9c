"""Evaluate expressions in an environment: compute their kinds and emit the events that they cause."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.assumptions import assumed, if_large
from dynalint.analysis.compact import ByType
from dynalint.analysis.dispatch import evaluate, evaluates
from dynalint.analysis.dunders import compared, note_comparison, operate, operate_unary, spread, truth_of
from dynalint.analysis.elements import element_of, has_elements
from dynalint.analysis.events import Branch, BranchForm, Format, GlobalRead, Iteration, Operation, Read
from dynalint.analysis.facts import forget_name, known_truth, narrowed
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join
from dynalint.analysis.members import member
from dynalint.analysis.narrowing import by_default, is_condition, narrow, truth
from dynalint.analysis.noting import note_assertion
from dynalint.analysis.operators import binary, compare, repeated, unary
from dynalint.analysis.ranks import multiplied
from dynalint.analysis.sparse import note_load, sum_of
from dynalint.analysis.steps import walk
from dynalint.analysis.stores import bind_target, note_attribute
from dynalint.analysis.subjects import subject
from dynalint.analysis.usage import is_of_tensor, shows_input

# Expressions that only exist in newer Python releases or inside other expressions.
_NEWER = ("FormattedValue", "TemplateStr", "Interpolation")
# Methods of tensors and modules, and hardly anything else.
_CASTING = ("float", "half", "double", "bfloat16")
# Methods that only recurrent layers have.
_OF_RECURRENT_LAYERS = ("flatten_parameters",)
_COMPREHENSIONS = ByType({ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "generator"})
_CONTAINERS = ByType({ast.Tuple: "tuple", ast.List: "list", ast.Set: "set"})


@evaluates(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Kind:
    return k.constant(node.value)


@evaluates(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Kind:
    kind = frame.env.get(node.id)
    if kind is not None:
        return note_load(frame, node, kind)
    kind = frame.interpreter.scopes.lookup(frame, node.id)
    if node.id in frame.interpreter.scopes.written_globals(frame.module):
        frame.emit(GlobalRead, node, name=node.id, kind=kind)
    return kind


@evaluates(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Kind:
    return note_load(frame, node, _attribute_kind(frame, node))


def _attribute_kind(frame: Frame, node: ast.Attribute) -> Kind:
    value = node.value
    if isinstance(value, ast.Name) and value.id == frame.self_name:
        known = frame.env.get(f"{value.id}.{node.attr}")
        if known is not None:
            return known
        known = narrowed(frame, node.attr) if frame.facts_of_self else None
        if known is not None:
            return known
    call = frame.calling
    owner = evaluate(frame, value)
    if isinstance(owner, k.Unknown):
        if is_of_tensor(frame, node, call) or shows_input(frame, node, owner):
            frame.note_tensor(value, owner)
            owner = k.TENSOR
        elif node.attr in _OF_RECURRENT_LAYERS:
            return k.Method(k.Object("torch.nn.RNNBase"), node.attr)
        else:
            # An attribute with one of these names is a device or a dtype on any object, so `mask.to(x.device)` is still
            # a mask.
            return k.Value(node.attr) if node.attr in ("device", "dtype") else UNKNOWN
    kind = member(frame, owner, node.attr)
    if not isinstance(kind, k.Method):
        note_attribute(frame, Read, node, owner)
    return kind


def test(frame: Frame, node: ast.expr, form: BranchForm) -> Kind:
    """Evaluate an expression that Python converts to bool. If it is a tensor, this is data-dependent control flow."""
    if isinstance(node, ast.BoolOp):
        return _short_circuit(frame, node, "and" if isinstance(node.op, ast.And) else "or", tested=True)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return evaluate(frame, node)
    kind = truth_of(frame, evaluate(frame, node))
    note_branch(frame, node, kind, form)
    answer = known_truth(frame, node, kind) if frame.facts and truth(kind) is None else None
    return kind if answer is None else k.Value("bool", answer)


def note_branch(frame: Frame, node: ast.expr, kind: Kind, form: BranchForm) -> None:
    """Emit a branch event if `kind` may be a tensor."""
    if k.may_be_tensor(kind):
        frame.emit(Branch, node, extra=form, form=form, kind=kind)
    else:
        note_assertion(frame, node, kind)


@evaluates(ast.BoolOp)
def _bool_op(frame: Frame, node: ast.BoolOp) -> Kind:
    return _short_circuit(frame, node, "and" if isinstance(node.op, ast.And) else "or", tested=False)


def _short_circuit(frame: Frame, node: ast.BoolOp, form: BranchForm, *, tested: bool) -> Kind:
    """Evaluate `a and b` or `a or b`, each operand in the environment of the paths that reach it."""
    outer, bound, condition = frame.env, frame.walrus, frame.condition
    result: Kind = NOTHING
    going_on = form == "and"
    for index, operand in enumerate(node.values):
        last = index == len(node.values) - 1
        if last and not tested:
            other = evaluate(frame, operand)
            result = join(result, other) if going_on else k.stand_in(result, other)
            break
        kind = test(frame, operand, form)
        answer = truth(kind)
        if answer is not None and answer is not going_on:
            # All earlier operands that end the evaluation have the same truth, so `unknown and False` is never true.
            result = k.Value("bool", answer) if tested else join(result, kind)
            break
        if answer is None and not tested and by_default(frame, operand) is going_on:
            pass  # a flag set to its default value does not end the evaluation
        elif answer is None or last:
            # The operand that ends the evaluation is the result. If that is `x` in `x or y`, it is true, so it cannot
            # be None.
            result = join(result, kind if going_on else k.without(kind, "none"))
        frame.env = dict(frame.env)
        narrow(frame, operand, going_on)
        if answer is None and is_condition(frame, operand, kind, going_on):
            frame.condition = operand
    frame.condition = condition
    frame.env = outer if frame.walrus == bound else _with_walrus(outer, frame.env, node)
    return result


def _with_walrus(outer: dict[str, Kind], inner: dict[str, Kind], node: ast.expr) -> dict[str, Kind]:
    """Keep bindings made by `:=` inside, but drop narrowing."""
    names = [child.target.id for child in walk(node) if isinstance(child, ast.NamedExpr)]
    return {**outer, **{name: inner[name] for name in names if name in inner}}


@evaluates(ast.UnaryOp)
def _unary_op(frame: Frame, node: ast.UnaryOp) -> Kind:
    if isinstance(node.op, ast.Not):
        kind = test(frame, node.operand, "not")
        answer = truth(kind)
        return k.BOOL if answer is None else k.Value("bool", not answer)
    operand = evaluate(frame, node.operand)
    operated = operate_unary(frame, node, operand)
    return unary(node.op, operand) if operated is None else operated


def _operand(frame: Frame, node: ast.BinOp, side: ast.expr) -> Kind:
    """Evaluate one side of an arithmetic operation. `x[1:] - x[:-1]` and `x.float() - 1` show that `x` is a tensor."""
    kind = evaluate(frame, side)
    shown: ast.expr | None = None
    if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice):
        shown = side.value if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)) else None
    elif isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr in _CASTING:
        shown = None if side.args or side.keywords else side.func.value
    if shown is None or not isinstance(kind, k.Unknown):
        return kind
    frame.note_tensor(shown, evaluate(frame, shown))
    return k.TENSOR


@evaluates(ast.BinOp)
def _bin_op(frame: Frame, node: ast.BinOp) -> Kind:
    left, right = _operand(frame, node, node.left), _operand(frame, node, node.right)
    operated = operate(frame, node, left, right)
    if operated is not None:
        return operated
    if isinstance(node.op, ast.MatMult):
        if any(isinstance(one, k.Instance) for one in (*left.members, *right.members)):
            return UNKNOWN
        frame.note_tensor(node.left, left)
        frame.note_tensor(node.right, right)
        dtypes = {one.dtype if isinstance(one, k.Tensor) else None for one in (left, right)}
        return k.Tensor(dtypes.pop() if len(dtypes) == 1 else None, multiplied(left, right))
    if isinstance(node.op, ast.Mod) and isinstance(left, k.Value) and left.type == "str":
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        items = right.items if isinstance(right, k.Sequence) and right.items and len(values) > 1 else (right,)
        for value, kind in zip(values, items, strict=False):
            if k.may_be_tensor(kind):
                frame.emit(Format, value, style="percent", kind=kind)
        return k.STR
    if repeated(node.op, left, right) is not None:
        frame.emit(Operation, node, operator=ast.Mult, left=left, right=right)
    result = binary(node.op, left, right)
    return sum_of(left, right, result) if isinstance(node.op, (ast.Add, ast.Sub)) else result


@evaluates(ast.Compare)
def _compare(frame: Frame, node: ast.Compare) -> Kind:
    left = evaluate(frame, node.left)
    result: Kind = NOTHING
    for index, (operator, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = evaluate(frame, right_node)
        if isinstance(operator, (ast.In, ast.NotIn)):
            _membership(frame, node, left, right)
        note_comparison(frame, node, operator, left, right)
        outcome = compared(frame, operator, left, right) or compare(operator, left, right)
        if index < len(node.ops) - 1:
            note_branch(frame, node, outcome, "chained-comparison")
        result = join(result, outcome)
        left = right
    return result


def _membership(frame: Frame, node: ast.Compare, left: Kind, right: Kind) -> None:
    """Emit events for `t in values`, which converts the result of each comparison to bool unless a dict is searched."""
    if k.may_be_tensor(right):
        note_branch(frame, node, right, "in")
    elif isinstance(right, k.Sequence) and right.type in ("list", "tuple") and k.may_be_tensor(left):
        note_branch(frame, node, left, "in")


@evaluates(ast.IfExp)
def _if_exp(frame: Frame, node: ast.IfExp) -> Kind:
    kind = test(frame, node.test, "ifexp")
    answer = truth(kind)
    outer, condition = frame.env, frame.condition
    uncertain = answer is None and is_condition(frame, node.test, kind)
    nearly_always = assumed(frame, node.test) if answer is None else None
    if uncertain and nearly_always is None:
        nearly_always = if_large(frame, node.test)
    found: list[Kind] = []
    for way, branch in ((True, node.body), (False, node.orelse)):
        if answer is None or answer is way:
            frame.env, frame.condition = dict(outer), condition
            narrow(frame, node.test, way)
            frame.condition = node.test if uncertain and nearly_always is not way else condition
            found.append(evaluate(frame, branch))
    frame.env, frame.condition = outer, condition
    asked = subject(node.test, None) if len(found) == 2 else None
    if asked is None or asked.asks != "none" or not isinstance(found[asked.positive], k.Unknown):
        return k.join_all(found)
    return k.stand_in(found[asked.positive], found[not asked.positive])


@evaluates(ast.Tuple, ast.List, ast.Set)
def _tuple(frame: Frame, node: ast.Tuple | ast.List | ast.Set) -> Kind:
    type_ = _CONTAINERS[type(node)]
    items: list[Kind] = []
    open_ended = False
    for element in node.elts:
        if isinstance(element, ast.Starred):
            inner = evaluate(frame, element.value)
            if isinstance(inner, k.Sequence) and inner.items is not None:
                items += inner.items
            else:
                open_ended = True
                items.append(element_of(spread(frame, inner)))
        else:
            items.append(evaluate(frame, element))
    if open_ended:
        return k.Sequence(type_, k.shallow(k.join_all(items)))
    return k.sequence(type_, items)


@evaluates(ast.Dict)
def _dict(frame: Frame, node: ast.Dict) -> Kind:
    known: dict[k.Key, Kind] = {}
    value: Kind = NOTHING
    rest: Kind = NOTHING
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        kind = evaluate(frame, value_node)
        if key_node is None:
            if isinstance(kind, k.Dictionary):
                known.update((key, item) for key, item in kind.by_key().items() if key not in kind.optional)
                value, rest = join(value, kind.value), join(rest, kind.value)
            else:
                value = rest = UNKNOWN
            continue
        key = evaluate(frame, key_node)
        if isinstance(key, k.Value) and key.constant is not k.MISSING:
            known[type(key.constant), key.constant] = kind
        else:
            rest = join(rest, kind)
        value = join(value, kind)
    return k.dictionary("dict", k.shallow(value), known, k.shallow(rest))


@evaluates(ast.Starred)
def _starred(frame: Frame, node: ast.Starred) -> Kind:
    return element_of(evaluate(frame, node.value))


@evaluates(ast.Lambda)
def _lambda(frame: Frame, node: ast.Lambda) -> Kind:
    function = frame.interpreter.definitions.function_of(node, frame.module, frame.function)
    frame.interpreter.scopes.capture(function, frame.env, frame.context)
    return k.Function(function)


@evaluates(ast.JoinedStr)
def _joined_str(frame: Frame, node: ast.JoinedStr) -> Kind:
    for value in node.values:
        if isinstance(value, ast.FormattedValue):
            kind = evaluate(frame, value.value)
            if value.format_spec is not None:
                evaluate(frame, value.format_spec)
            if k.may_be_tensor(kind):
                frame.emit(Format, value.value, style="fstring", kind=kind, spec=value.format_spec is not None)
    return k.STR


@evaluates(ast.NamedExpr)
def _named_expr(frame: Frame, node: ast.NamedExpr) -> Kind:
    kind = evaluate(frame, node.value)
    frame.env[node.target.id] = kind
    forget_name(frame, node.target.id)
    frame.walrus += 1
    return kind


@evaluates(ast.ListComp, ast.SetComp, ast.GeneratorExp)
def _comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Kind:
    outer = frame.env
    certain, frame.env = frame.certain, dict(outer)
    count = _generators(frame, node.generators)
    element = evaluate(frame, node.elt)
    frame.loop -= 1
    frame.env, frame.certain = outer, certain
    items = (element,) * count if count is not None and not node.generators[0].ifs else None
    return k.Sequence(_COMPREHENSIONS[type(node)], k.shallow(element), items)


@evaluates(ast.DictComp)
def _dict_comprehension(frame: Frame, node: ast.DictComp) -> Kind:
    outer = frame.env
    certain, frame.env = frame.certain, dict(outer)
    _generators(frame, node.generators)
    evaluate(frame, node.key)
    value = evaluate(frame, node.value)
    frame.loop -= 1
    frame.env, frame.certain = outer, certain
    return k.Dictionary("dict", k.shallow(value))


def _generators(frame: Frame, generators: list[ast.comprehension]) -> int | None:
    """Bind a comprehension's targets and enter its loop. Return the number of iterations if it is small and known."""
    count: int | None = None
    for generator in generators:
        iterated = evaluate(frame, generator.iter)
        frame.loop += generator is generators[0]
        note_iteration(frame, generator.iter, iterated)
        if isinstance(iterated, k.Sequence) and iterated.items is not None and len(generators) == 1:
            count = len(iterated.items)
        bind_target(frame, generator.target, element_of(spread(frame, iterated)), None)
        frame.certain = frame.certain and has_elements(iterated)
        for condition in generator.ifs:
            test(frame, condition, "comprehension")
            narrow(frame, condition, True)
            frame.certain = False
    return count


def note_iteration(frame: Frame, node: ast.expr, kind: Kind) -> None:
    """Emit an event for iterating over a tensor, a range, or another sequence."""
    if k.may_be_tensor(kind) or isinstance(kind, k.Sequence):
        frame.emit(Iteration, node, kind=kind)


@evaluates(ast.Slice)
def _slice(frame: Frame, node: ast.Slice) -> Kind:
    bounds = [evaluate(frame, bound) for bound in (node.lower, node.upper, node.step) if bound is not None]
    return k.Sequence("slice", k.join_all(bounds), tuple(bounds))


@evaluates(ast.Await)
def _await(frame: Frame, node: ast.Await) -> Kind:
    evaluate(frame, node.value)
    return UNKNOWN


@evaluates(ast.Yield)
def _yield(frame: Frame, node: ast.Yield) -> Kind:
    frame.yields = join(frame.yields, k.NONE if node.value is None else evaluate(frame, node.value))
    return UNKNOWN


@evaluates(ast.YieldFrom)
def _yield_from(frame: Frame, node: ast.YieldFrom) -> Kind:
    frame.yields = join(frame.yields, element_of(spread(frame, evaluate(frame, node.value))))
    return UNKNOWN


@evaluates(*(getattr(ast, name) for name in _NEWER if hasattr(ast, name)))
def _nothing_known(frame: Frame, node: ast.expr) -> Kind:
    return UNKNOWN
