"""Fuzzing: inputs that come to a side where the usual ones do not, made from those that came by a way of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import pytest

from dynalint.fix import Proof

from .test_verify import model

pytestmark = pytest.mark.dynamo

Prove = Callable[..., Proof]

# What is drawn before it does not keep to what is known of `h` there, so that only inputs can show it.
REACHED = {
    "one tensor in its relation to another": (
        "d = x - y * 2\nif d.norm() == 0:\n    if x.max() < 0:\n        h = h + x.detach()",
        "h = h + y.detach() * 2",
    ),
    "a number that a test names": (
        "m = x.mean()\nif 41.5 < m < 42.5:\n    h = h + x.detach().mean()",
        "h = h + m.detach()",
    ),
}
PAIR = "(torch.randn(4, 8), torch.randn(4, 8))"


@pytest.mark.parametrize("what", REACHED)
def test_a_side_is_come_to_by_inputs_that_are_looked_for(prove: Prove, what: str) -> None:
    body, after = REACHED[what]
    code = model(body).replace("def forward(self, x):", "def forward(self, x, y):")
    old = body.splitlines()[-1].strip()
    right = prove(code, (old, after), inputs=PAIR)
    assert right.outcome == "proven", right
    wrong = prove(code, (old, f"{after} * 1.01"), inputs=PAIR)
    assert wrong.outcome == "refuted", wrong
    assert "inputs that a search came to" in wrong.detail


def test_the_search_is_the_same_every_time_and_ends() -> None:
    from dynalint.confirm.worker.comparing.fuzzing import Way, _Breed
    from dynalint.confirm.worker.comparing.trials import BASE

    def ways() -> list[Way]:
        breed = _Breed([Way(None, True, BASE)], 2, (42.0,))
        found = []
        for way in breed.ways():
            found.append(way)
            breed.keep(way, frozenset({(len(found) % 7, None)}))
        return found

    first = ways()
    assert first == ways()
    assert len(first) < 10_000


def test_numbers_are_those_of_comparisons_in_what_is_marked() -> None:
    from dynalint.confirm.worker.comparing.fuzzing import constants_of

    text = "def f(x):\n    if __dynalint_side__(0, (x.sum() > -3.5)):\n        return x * 7\n\ndef g(x):\n    return x < 11\n"
    assert constants_of({"a.py": text, "b.py": "def h(x):\n    return x < 12\n"}) == (-3.5, 3.5)


def test_integers_stay_within_those_of_the_example() -> None:
    import torch

    from dynalint.confirm.worker.comparing.fuzzing import Way, _Breed
    from dynalint.confirm.worker.comparing.trials import BASE

    call = ((torch.tensor([[3, 9, 1]]), torch.tensor([True, False]), torch.zeros(0), torch.zeros(2, 1)), {})
    breed = _Breed([Way(None, True, BASE)], 4, ())
    seen: set[int] = set()
    for way in islice(breed.ways(), 600):
        breed.keep(way, frozenset())
        ids, mask, nothing, floats = way.trial.of(call)[0]
        assert [one.dtype for one in (ids, mask, nothing, floats)] == [one.dtype for one in call[0]]
        assert [one.shape for one in (ids, mask, nothing, floats)] == [one.shape for one in call[0]]
        seen.update(ids.flatten().tolist())
    assert seen <= set(range(10))
    assert len(seen) > 5


def test_a_side_has_not_been_come_to_where_the_original_raises(prove: Prove) -> None:
    body = "m = x.mean()\nif 41.5 < m < 42.5:\n    h = h + m\nassert not 41.5 < m < 42.5"
    proof = prove(model(body), ("h = h + m", "h = h + x.mean() * 2"))
    assert proof.outcome == "unverifiable", proof


def test_sparse_tensors_stay_as_they_are_given() -> None:
    """What cannot be filled element by element is no reason to prove nothing of the other inputs."""
    import torch

    from dynalint.confirm.worker.comparing.mutations import Mutation
    from dynalint.confirm.worker.comparing.trials import BASE, USUAL, at_edges

    sparse, dense = torch.eye(4).to_sparse().requires_grad_(), torch.ones(4, 3)
    mutated = replace(BASE, mutations=(Mutation(0, 2, 5.0, 0),), alike=True)
    others = set()
    for trial in (BASE, *USUAL, mutated, *at_edges([BASE])):
        (first, second), _ = trial.of(((sparse, dense), {}))
        assert first is not sparse
        assert first.is_sparse
        assert first.requires_grad
        assert torch.equal(first.to_dense(), torch.eye(4))
        others.add(tuple(second.flatten().tolist()))
    assert len(others) > len(USUAL)
