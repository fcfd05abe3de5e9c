"""The kinds form a lattice: the fixpoints rest on it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dynalint.analysis import kinds as k

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
    ]
)


def containers(inner: st.SearchStrategy[k.Kind]) -> st.SearchStrategy[k.Kind]:
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda items: k.sequence("tuple", items)),
        inner.map(lambda element: k.Sequence("list", element)),
        inner.map(lambda value: k.Dictionary("dict", value, (("a", value),))),
        st.lists(inner, min_size=1, max_size=3).map(k.join_all),
    )


KINDS = st.recursive(BASE, containers, max_leaves=5)


@given(KINDS)
def test_join_is_idempotent(kind: k.Kind) -> None:
    assert k.join(kind, kind) == kind
    assert k.join(kind, k.NOTHING) == kind == k.join(k.NOTHING, kind)
    assert k.join(kind, k.UNKNOWN) == k.UNKNOWN or kind is k.NOTHING


@given(KINDS, KINDS)
def test_join_is_an_upper_bound(left: k.Kind, right: k.Kind) -> None:
    joined = k.join(left, right)
    assert k.join(joined, left) == joined
    assert k.join(joined, right) == joined


@given(KINDS, KINDS)
def test_join_commutes_up_to_order(left: k.Kind, right: k.Kind) -> None:
    one, other = k.join(left, right), k.join(right, left)
    assert k.join(one, other) == one
    assert k.join(other, one) == other


@given(KINDS, st.lists(KINDS, max_size=30))
def test_chains_end(start: k.Kind, steps: list[k.Kind]) -> None:
    kind = start
    for step in steps:
        kind = k.join(kind, k.shallow(step))
    # All is covered then: to join the same again changes nothing any more.
    assert all(k.join(kind, k.shallow(step)) == kind for step in steps)


def test_constants_are_told_apart_by_type() -> None:
    assert k.Value("int", 1) != k.Value("bool", True)
    assert k.join(k.Value("int", 1), k.Value("int", 2)) == k.INT
    assert k.join(k.Value("float", float("nan")), k.Value("float", float("nan"))) == k.FLOAT


def test_none_does_not_hide_a_tensor() -> None:
    assert k.only_tensor(k.join(k.TENSOR, k.NONE)) == k.TENSOR
    assert k.only_tensor(k.join(k.TENSOR, k.INT)) is None
    assert k.without(k.join(k.TENSOR, k.NONE), "none") == k.TENSOR
