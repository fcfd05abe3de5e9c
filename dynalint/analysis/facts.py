"""Facts, which are outcomes of earlier tests on the current path that determine later tests of the same values.

After `if not self.merged: return`, the attribute `merged` is true. A call to `self.unmerge()` passes this fact on, so a
branch in `unmerge` that contradicts it is not reached from here. Facts are stored in the environment under special
keys, so that paths that join keep the facts they share. A context's parameters contain them under the same keys:

    bool(self.merged)    a `Value` whose constant is the truth of the attribute
    none(self.bias)      a `Value` whose constant says whether the attribute is None
    kind(self.scale)     the narrowed kind of an attribute that this call has not set

This also works for a property that is computed only from other attributes. For example, `merged` depends on
`merged_adapters` if it returns `len(self.merged_adapters) > 0`. A fact is dropped when its attribute may change, either
because of a store, or because of a call to one of the attribute's own methods or to a method of `self` that contains a
store or call of this kind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.frame import Environment, Frame
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.kinds import Kind
from dynalint.analysis.reach import ANYTHING, changes_of, read_by, receiver_name, returned_value
from dynalint.analysis.subjects import Subject, subject, tested_subjects

_TRUE = k.Value("bool", True)
_FALSE = k.Value("bool", False)
_OPPOSITE = {"bool": "none", "none": "bool"}


def known_truth(frame: Frame, node: ast.expr, kind: Kind) -> bool | None:
    """Return the outcome of a test if earlier tests determine it.

    Return None if they do not, or if it tests a tensor.
    """
    if not frame.facts or k.may_be_tensor(kind):
        return None
    found = subject(node, frame.self_name)
    return None if found is None else _look_up(frame, found)


def _look_up(frame: Frame, found: Subject) -> bool | None:
    for one in _same(frame, found):
        kind = frame.env.get(one.key(frame.self_name))
        if isinstance(kind, k.Value) and kind.constant is not k.MISSING:
            return bool(kind.constant) is one.positive
    return None


def learn(frame: Frame, node: ast.expr, way: bool) -> None:
    """Record that the outcome of a test was `way`. The test is not an `and`, `or` or `not`."""
    found = subject(node, frame.self_name)
    if found is None or (found.attribute is None and not _is_plain(frame.env.get(found.name))):
        return
    for one in _same(frame, found):
        holds = one.positive is way
        _note(frame, one.key(frame.self_name), holds)
        if holds:
            _note(frame, one.key(frame.self_name).replace(one.asks, _OPPOSITE[one.asks], 1), False)


def _is_plain(kind: Kind | None) -> bool:
    """Return whether a variable's value is immutable."""
    return kind is not None and all(isinstance(one, k.Value) for one in kind.members)


def _note(frame: Frame, key: str, holds: bool) -> None:
    frame.env[key] = _TRUE if holds else _FALSE
    frame.note_fact(key)


def _same(frame: Frame, found: Subject) -> Iterator[Subject]:
    """Yield a subject and, if it is a property over one other attribute, the subject that it depends on."""
    yield found
    cls = receiver_class(frame)
    seen: set[FunctionInfo] = set()
    while True:
        getter = _getter(frame, cls, found.attribute)
        if getter is not None:
            frame.interpreter.project.asked.add((returned_value, getter))
        value = None if getter is None or found.asks != "bool" else returned_value(getter)
        if getter is None or value is None or getter in seen:
            return
        seen.add(getter)
        inner = None if value is None else subject(value, receiver_name(getter))
        if inner is None or inner.attribute is None:
            return
        found = inner if found.positive else inner.negated()
        yield found


def _getter(frame: Frame, cls: ClassInfo | None, attribute: str | None) -> FunctionInfo | None:
    if cls is None or attribute is None:
        return None
    method = frame.interpreter.project.find_method(cls, attribute)
    return method if method is not None and "property" in method.decorators else None


def receiver_class(frame: Frame) -> ClassInfo | None:
    """Return the class of `self`, or the class that defines the method if `self` can have more than one class."""
    kind = frame.env.get(frame.self_name) if frame.self_name is not None else None
    kind = kind if isinstance(kind, k.Instance) and not kind.below else frame.receiver
    return kind.cls if isinstance(kind, k.Instance) else None


# Narrowed kinds.


def narrowed(frame: Frame, attribute: str) -> Kind | None:
    """Return the kind to which tests have narrowed an attribute that this call has not set."""
    return frame.env.get(f"kind({frame.self_name}.{attribute})")


def note_narrowed(frame: Frame, attribute: str, kind: Kind) -> None:
    """Record the kind to which a test narrows an attribute."""
    key = f"kind({frame.self_name}.{attribute})"
    frame.env[key] = kind
    frame.note_fact(key)


# The end of facts.


def forget_attribute(frame: Frame, attribute: str) -> None:
    """Drop the facts that depend on an attribute of `self`."""
    if frame.facts_of_self:
        _forget(frame, frozenset({attribute}))


def forget_name(frame: Frame, name: str) -> None:
    """Drop the facts about a variable."""
    for asks in _OPPOSITE if frame.facts else ():
        frame.env.pop(f"{asks}({name})", None)


def _forget(frame: Frame, attributes: frozenset[str]) -> None:
    prefix = f"({frame.self_name}."
    for key in frame.facts_of_self:
        _, dot, rest = key.partition(prefix)
        if dot and key in frame.env and (attributes is ANYTHING or _hangs_on(frame, rest[:-1], attributes)):
            del frame.env[key]


def _hangs_on(frame: Frame, attribute: str, attributes: frozenset[str]) -> bool:
    read = read_by(frame.interpreter.project, receiver_class(frame), attribute)
    return read is ANYTHING or not read.isdisjoint(attributes)


def forget_by_call(frame: Frame, node: ast.Call, callee: Kind) -> None:
    """Drop the facts that a call may invalidate."""
    cls = receiver_class(frame)
    if cls is not None and frame.self_name is not None:
        changed = changes_of(frame.interpreter.project, cls, node, frame.self_name, frame.function, callee)
        if changed:
            _forget(frame, changed)


# Facts passed to callees.


def passed_on(frame: Frame, callee: k.Function, node: ast.Call | None) -> Environment:
    """Return the facts about values that the callee tests, under the callee's names for those values."""
    if node is None or not frame.facts or frame.function in frame.interpreter.scripts:
        return {}
    function = callee.function
    on_self = callee.receiver is not None and _is_on_self(frame, node)
    names = {} if callee.args else _arguments(frame, function, node, callee.receiver is not None)
    if not names and not (on_self and frame.facts_of_self):
        return {}
    own = receiver_name(function)
    found: Environment = {}
    frame.interpreter.project.asked.add((tested_subjects, function))
    for one in tested_subjects(function, own):
        if one.attribute is not None:
            answer = _look_up(frame, one) if on_self else None
        else:
            argument = names.get(one.name)
            answer = None if argument is None else _look_up(frame, Subject(one.asks, argument, None))
        if answer is not None:
            found[one.key(own)] = k.Value("bool", answer)
    return found


def _is_on_self(frame: Frame, node: ast.Call) -> bool:
    """Return whether a call is a method call on `self`, directly or through `super()`."""
    if not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return isinstance(owner, ast.Name) and owner.id == frame.self_name


def _arguments(frame: Frame, function: FunctionInfo, node: ast.Call, bound: bool) -> dict[str, str]:
    """Map the parameters of `function` to the variables passed for them, for variables with facts."""
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return {}
    names = [argument.arg for argument in function.positional][1 if bound else 0 :]
    pairs = [*zip(names, node.args, strict=False), *((one.arg, one.value) for one in node.keywords if one.arg)]
    passed = {name: value.id for name, value in pairs if isinstance(value, ast.Name)}
    return {name: own for name, own in passed.items() if f"bool({own})" in frame.facts or f"none({own})" in frame.facts}
