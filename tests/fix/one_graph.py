"""Whether one graph can do what a program does: what a graph fixes when it is traced must be the same for all inputs.

For inputs of one shape, a graph gives results of one structure, dtype and shape, of which the same require gradients; it
reaches the same leaves with gradients, of zeros maybe, and leaves the others without; it draws as many random numbers on
each call, shares the same memory, and raises or does not, but for an assertion, which it can hold. It never seeds the
random numbers. A program of which two calls differ in any of this has no rewrite that is exact and that Dynamo takes
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

_DRAWN = 24
_SEED = 7
_RANDOM = "random numbers"


def what_no_graph_does(make: Callable[[], Any], call: Any) -> str | None:
    """Return the aspect in which two calls differ that one graph has to be the same in; None if none was seen to."""
    states = [dict(_fixed(make, call, training=True, seed=seed)).get(_RANDOM) for seed in (_SEED, _SEED + 1)]
    if states[0] is not None and states[0] == states[1]:
        return "that it seeds the random numbers"
    for training in (True, False):
        seen: dict[tuple[str, int | None], Any] = {}
        for arguments, seed, negated in _calls(call):
            for aspect, found in _fixed(make, arguments, training=training, seed=seed, negated=negated):
                if seen.setdefault((aspect, seed if aspect == _RANDOM else None), found) != found:
                    return aspect
    return None


def _calls(call: Any) -> Iterator[tuple[Any, int, bool]]:
    """Yield arguments, the seed to draw random numbers with, and whether the state of the model is negated first."""
    from dynalint.confirm.worker.comparing.trials import ALIKE, BASE, NO_NUMBERS, USUAL, random_trials

    for trial in (BASE, *USUAL, ALIKE, *NO_NUMBERS, *islice(random_trials(), _DRAWN)):
        yield trial.of(call), _SEED, False
    for trial in (BASE, *USUAL[:5]):
        yield from ((trial.of(call), _SEED + more, False) for more in range(1, 5))
        yield trial.of(call), _SEED, True


def _fixed(
    make: Callable[[], Any], call: Any, *, training: bool, seed: int, negated: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield what a graph fixes of one call of a model made anew."""
    import torch
    from torch.utils import _pytree as pytree

    from dynalint.confirm.worker.comparing.observing import observe

    torch.default_generator.manual_seed(0)  # `torch.manual_seed` writes down where it is called, for a GPU
    model = make().train(training)
    if negated:
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                tensor.neg_()
    seen = observe(model, model, call, seed, training=training)
    if seen.error is not None and seen.error[0] == "AssertionError":
        return
    yield "whether it raises", None if seen.error is None else seen.error[0]
    if seen.error is not None:
        return
    leaves, layout = pytree.tree_flatten((seen.output, seen.inputs, seen.state))
    yield "the form of its results", (str(layout), [_form(leaf) for leaf in leaves])
    yield "which gradients there are", sorted(name for name, value in seen.gradients.items() if value is not None)
    yield "shared memory", seen.aliases
    yield _RANDOM, tuple(seen.effects["the random state of torch"].tolist())


def _form(leaf: Any) -> Any:
    import torch

    return (leaf.dtype, leaf.shape, leaf.requires_grad) if isinstance(leaf, torch.Tensor) else type(leaf)
