"""The kinds form a lattice: the fixpoints rest on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalint.analysis import kinds as k
from dynalint.analysis.frame import Context, Frame
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.passing import either_known, either_store, widen
from dynalint.analysis.project import Project

PATH = Path("code.py")
CODE = """
class Top:
    def call(self): ...

class Left(Top): ...

class Right(Top): ...

class Low(Left, Right): ...

class Other: ...

def helper(one, other): ...

def outer():
    def inner():
        return variable
"""


def _read() -> tuple[list[ClassInfo], FunctionInfo, FunctionInfo]:
    project = Project.load([PATH], overrides={PATH: CODE})
    Interpreter(project, lambda name: None)
    (module,) = project.modules.values()
    call, helper, *_ = module.functions
    return project.all_classes, call, helper


CLASSES, CALL, HELPER = _read()

BASE = st.sampled_from(
    [
        k.UNKNOWN,
        k.NOTHING,
        k.TENSOR,
        k.BOOL_TENSOR,
        k.Tensor("float", 0),
        k.Tensor("float", 0, "buffer", "n"),
        k.NONE,
        k.INT,
        k.Value("int", 1),
        k.Value("bool", True),
        k.Value("float", 1.0),
        k.SIZE,
        k.Value("int", source="data"),
        k.STR,
        k.External("torch.relu"),
        k.Object("torch.nn.Linear"),
        k.Unknown("one"),
        k.Unknown("other", compared=True),
        k.Function(HELPER),
        k.Function(HELPER, args=(k.TENSOR,)),
        *map(k.Class, CLASSES),
    ]
)
INSTANCES = st.sampled_from([k.Instance(cls, *way) for cls in CLASSES for way in ((), (True,), (False, True))])
HOMES = st.builds(k.Home, st.sampled_from(["attribute", "global"]), st.sampled_from(["a", "b", "b[...]"]))


def dictionary(items: list[tuple[object, k.Kind]], home: k.Home, others: k.Kind | None, optional: int) -> k.Dictionary:
    pairs = {(type(key), key): (key, kind) for key, kind in items}
    value = k.join_all([*(kind for _, kind in pairs.values()), others or k.NOTHING])
    return k.Dictionary("dict", value, tuple(pairs.values()), home, others, frozenset(list(pairs)[:optional]))


def containers(inner: st.SearchStrategy[k.Kind]) -> st.SearchStrategy[k.Kind]:
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda items: k.sequence("tuple", items)),
        inner.map(lambda element: k.Sequence("list", element)),
        st.builds(lambda element, home: k.Sequence("list", element, None, home), inner, HOMES),
        st.builds(
            dictionary,
            st.lists(st.tuples(st.sampled_from(["a", "b", 1, True]), inner), max_size=3),
            HOMES,
            st.sampled_from([None, k.NOTHING, k.TENSOR, k.SIZE]),
            st.integers(0, 2),
        ),
        st.lists(INSTANCES, min_size=1, max_size=3).map(lambda some: k.Function(CALL, k.join_all(some))),
        inner.map(lambda receiver: k.Method(receiver, "add")),
        st.lists(inner, min_size=1, max_size=3).map(k.join_all),
    )


KINDS = st.recursive(BASE | INSTANCES, containers, max_leaves=6)


# The first of these tests pays for what is made once.
@given(KINDS)
def test_join_is_idempotent(kind: k.Kind) -> None:
    assert k.join(kind, kind) == kind
    assert k.join(kind, k.NOTHING) == kind == k.join(k.NOTHING, kind)
    assert k.join(kind, k.UNKNOWN) == k.UNKNOWN or kind is k.NOTHING


def test_a_method_of_tensors_of_two_ranks_is_one_method() -> None:
    methods = [k.Method(k.Tensor("float", rank), "add") for rank in (1, 2)]
    assert k.join_all(methods) == k.Method(k.Tensor("float"), "add")
    assert k.join(methods[0], k.Method(k.STR, "add")).members == (methods[0], k.Method(k.STR, "add"))


@given(KINDS, KINDS)
def test_join_is_an_upper_bound(left: k.Kind, right: k.Kind) -> None:
    joined = k.join(left, right)
    assert k.join(joined, left) == joined
    assert k.join(joined, right) == joined


@given(KINDS, KINDS)
def test_join_commutes(left: k.Kind, right: k.Kind) -> None:
    assert k.join(left, right) == k.join(right, left)


@given(KINDS, KINDS, KINDS)
def test_join_associates(one: k.Kind, two: k.Kind, three: k.Kind) -> None:
    assert k.join(k.join(one, two), three) == k.join(one, k.join(two, three))


@given(st.lists(KINDS, max_size=12))
def test_all_are_joined_at_once_as_one_by_one(kinds: list[k.Kind]) -> None:
    joined: k.Kind = k.NOTHING
    for kind in kinds:
        joined = k.join(joined, kind)
    assert k.join_all(kinds) == joined


@given(st.lists(KINDS, max_size=6), st.sampled_from([either_known, either_store]))
def test_what_is_stored_again_and_again_comes_to_rest(kinds: list[k.Kind], either: Callable) -> None:
    held: k.Kind = k.NOTHING
    for kind in [*kinds, *kinds, *kinds]:
        held = either(held, kind)
    assert all(either(held, kind) == held for kind in kinds)


@given(st.lists(st.tuples(KINDS, KINDS), min_size=1, max_size=6))
def test_a_function_that_the_same_callers_call_again_comes_to_rest(calls: list[tuple[k.Kind, k.Kind]]) -> None:
    context = Context(HELPER, {})
    for one, other in [*calls, *calls, *calls]:
        widen(context, {"one": one, "other": other})
    assert not any(widen(context, {"one": one, "other": other}) for one, other in calls)


@given(KINDS, st.lists(KINDS, max_size=30))
def test_chains_end(start: k.Kind, steps: list[k.Kind]) -> None:
    kind = start
    for step in steps:
        kind = k.join(kind, k.shallow(step))
    # All is covered then: to join the same again changes nothing any more.
    assert all(k.join(kind, k.shallow(step)) == kind for step in steps)


def test_what_a_closure_sees_only_climbs() -> None:
    """A variable is one thing where the inner function is defined and another at the end, in every run of the outer."""
    interpreter = Interpreter(Project.load([PATH], overrides={PATH: CODE}), lambda name: None)
    (module,) = interpreter.project.modules.values()
    outer = module.bindings["outer"]
    assert isinstance(outer, FunctionInfo)
    inner = interpreter.definitions.function_of(outer.node.body[0], module, outer)
    reader = Context(inner, {})
    frame = Frame(interpreter, module, inner, reader)
    for kind in (k.INT, k.STR, k.INT, k.STR):
        reader.outdated = False
        interpreter.scopes.capture(inner, {"variable": kind}, None)
        seen = interpreter.scopes.lookup(frame, "variable")
    assert seen == k.join(k.INT, k.STR)
    assert not reader.outdated


def test_constants_are_told_apart_by_type() -> None:
    assert k.Value("int", 1) != k.Value("bool", True)
    assert k.join(k.Value("int", 1), k.Value("int", 2)) == k.INT
    assert k.join(k.Value("float", float("nan")), k.Value("float", float("nan"))) == k.FLOAT


def test_none_does_not_hide_a_tensor() -> None:
    assert k.only_tensor(k.join(k.TENSOR, k.NONE)) == k.TENSOR
    assert k.only_tensor(k.join(k.TENSOR, k.INT)) is None
    assert k.without(k.join(k.TENSOR, k.NONE), "none") == k.TENSOR


def test_a_partial_that_is_wrapped_in_itself_comes_to_rest() -> None:
    kind = k.join(k.Function(CALL), k.Function(HELPER))
    for _ in range(10):
        before, wrapped = kind, k.sequence("list", [kind])
        kind = k.join(kind, k.Partial(k.Function(HELPER), keywords=(("pickers", wrapped),)))
    assert kind == before != k.UNKNOWN


def test_nested_kinds_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(leaf: k.Kind, depth: int) -> k.Kind:
        for _ in range(depth):
            leaf = k.Dictionary("dict", k.join(leaf, k.STR), (("inner", leaf),))
        return leaf

    calls = []
    compare = k.Dictionary.__eq__
    monkeypatch.setattr(k.Dictionary, "__eq__", lambda one, other: bool(calls.append(one)) or compare(one, other))
    counts = []
    for depth in (3, 6):
        calls.clear()
        assert nested(k.INT, depth) != nested(k.SIZE, depth)  # with the same hash
        counts.append(len(calls))
    assert counts[1] <= 3 * counts[0]


def test_the_keys_one_and_true_are_different_in_any_order() -> None:
    one, true = (1, k.NONE), (True, k.STR)
    value = k.join(k.NONE, k.STR)
    assert k.Dictionary("dict", value, (one, true)) == k.Dictionary("dict", value, (true, one))
    assert k.Dictionary("dict", k.NONE, ((1, k.NONE),)) != k.Dictionary("dict", k.NONE, ((True, k.NONE),))
