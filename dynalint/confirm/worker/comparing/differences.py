"""Describe how two observations of the same call differ, as a clause for a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from .describing import numbers, short, worded
from .observing import ADDRESS, PLAIN, SCRIPT, Observation, as_numbers, tensors_in

_MOST_COMPARED = 100_000
# The error allowed when a sum is computed in a different order, as a multiple of epsilon times the largest number.
_MOST_ROUNDED = 32
# The allowed ratio of two rounding errors, both measured against a wider precision, as in torch's own comparisons.
_LESS_ACCURATE = 3
# The error of numbers in a narrow precision, as a fraction.
_NARROW = 1e-2
# The size of what is left of a gradient whose terms cancel out, relative to the largest gradient.
_CANCELLED = 1e-4
_GRADIENTS = "gradients"
# The starts of torch's warnings about converting a tensor with gradients to a number and about an old name. Some fixes
# avoid them.
_AVOIDED = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior",
    "'saved_variables' is deprecated",
)
# torch warns about values that a branch computes from too few elements, even if they are not selected.
_TOO_FEW = ("std(): degrees of freedom is <= 0", "var(): degrees of freedom is <= 0")
# Stands for the output among the names of attributes, none of which can be a keyword.
OUTPUT = "return"
# Reported when practical equality ignores a difference on non-finite inputs.
NOT_FINITE = "results differ where inputs are infinite or NaN"
# Reported when practical equality accepts the neutral element for the exception that torch raises for an empty tensor.
NOTHING_REDUCED = "a maximum or minimum of no elements is infinite instead of an exception"
# Reported when it accepts that the rows of an empty batch, which are no longer stacked one by one, are no rows.
NOTHING_STACKED = "an empty batch gives no rows instead of an exception from `torch.stack`"
_NOTHING_STACKED = "stack expects a non-empty TensorList"
_NOTHING_REDUCED = "Expected reduction dim to be specified for input.numel() == 0"
# Reported when practical equality accepts that a tensor is divided by zero where dividing a number raised.
DIVIDED = "a division by zero no longer raises an exception"


@dataclass(frozen=True)
class Equality:
    """What counts as equal.

    `exact` requires identical numbers. Otherwise, numbers must agree within the precision of their dtype. Autograd does
    not guarantee the order in which it sums gradients, so even if `exact` is true, gradients may differ by a sum's
    rounding. `numbers` are attributes in which a 0-dim tensor may replace a Python number, and `OUTPUT` if it also may
    in the output. `unmoved` are attributes whose tensor may keep its device and dtype, if equality is practical, and
    under `autocast` all may keep a wider dtype. `compiled` allows what a compiler needs: rounding, zero gradients
    instead of none, its own exceptions, views and effects. `practical` allows what a reviewer would: numbers within the
    tolerances of `torch.testing.assert_close`, zero gradients instead of none (if a parameter gets no gradient or an
    output requires none), a separate output instead of one that shared memory, a quotient of tensors instead of a
    ZeroDivisionError, and warnings about a variance of too few elements. `computed_in` is a dtype that all numbers were
    computed in, so they only have to agree within its precision. `converted` allows an output of zeros, which a branch
    may return instead of a result, to have the result's dtype. `any_float` ignores the elements of floating-point
    tensors. If `backward` is false, it does not matter in practice whether an output requires a gradient. `everywhere`
    requires equal results for infinite inputs and NaN, too, because the code asks for them.
    """

    exact: bool = True
    numbers: frozenset[str] = frozenset()
    unmoved: frozenset[str] = frozenset()
    compiled: bool = False
    practical: bool = False
    computed_in: torch.dtype | None = None
    converted: bool = False
    any_float: bool = False
    backward: bool = True
    everywhere: bool = False
    autocast: bool = False


def difference(one: Observation, other: Observation, equality: Equality) -> str | None:
    """Return the first difference as a clause that starts with its aspect, or None if there is none."""
    if (one.error is None) != (other.error is None) or not (equality.compiled or _is_same_error(one, other, equality)):
        return f"exception: {_raised(one.error)} became {_raised(other.error)}"
    checks: list[tuple[str, Any, Any]] = []
    if one.error is None:
        outputs = one.output, other.output
        outputs = as_numbers(*outputs) if OUTPUT in equality.numbers else outputs
        checks += [("output", *outputs), ("input", one.inputs, other.inputs)]
    for where, left, right in checks:
        if found := _differ(where, left, right, equality, set()):
            return found
    found = _gradients_differ(one, other, equality) if one.error is None else None
    found = found or _states_differ(one, other, equality)
    if found or equality.compiled:
        return found
    if one.keys != other.keys:
        return f"state_dict: {_listed(one.keys, other.keys)}"
    if one.aliases != other.aliases and not (equality.practical and set(other.aliases) <= set(one.aliases)):
        return f"memory: {_listed(one.aliases, other.aliases)}"
    for name, left in one.effects.items():
        right = other.effects.get(name)
        if name == "warnings":
            ignored = (*_AVOIDED, *_TOO_FEW) if equality.practical else _AVOIDED
            left, right = ([one for one in some if not one[1].startswith(ignored)] for some in (left, right or []))  # noqa: PLW2901
        found = _differ(name, left, right, equality, set())
        if found:
            return found if not name.startswith("the random state") else f"{name} differs afterwards"
    return None


def no_longer_raises(one: Observation, other: Observation) -> str | None:
    """Return what no longer raises an exception if practical equality accepts it, or None."""
    if one.error is None or other.error is not None:
        return None
    if one.error[0] == "ZeroDivisionError":
        return DIVIDED
    if one.refused and _NOTHING_STACKED in one.error[1]:
        return NOTHING_STACKED
    return NOTHING_REDUCED if one.refused and _NOTHING_REDUCED in one.error[1] else None


def let_pass(one: Observation, other: Observation) -> Iterator[str]:
    """Yield the differences that practical equality allowed, as clauses."""
    gained = [name for name, right in other.gradients.items() if right is not None and one.gradients.get(name) is None]
    yield from (f"{name} has a zero gradient instead of None" for name in gained)
    before = dict(tensors_in(one.output))
    for where, right in tensors_in(other.output) if one.error is None else ():
        if where not in before:
            yield f"output{where} is a 0-dim tensor instead of a number"
        elif right.requires_grad and not before[where].requires_grad:
            yield f"output{where} passes on zero gradients where it had none"
    yield from (alias.replace(" shares ", " no longer shares ") for alias in one.aliases if alias not in other.aliases)


def no_less_accurate(one: Observation, other: Observation, wide: Observation, equality: Equality) -> bool:
    """Return whether two calls in a narrow precision differ only by rounding, based on a call in a wide precision.

    If numbers cancel out, only rounding errors are left. In that case, the second call must be as close to the wide
    result as the first call, or it must be a gradient that is zero compared to the others, and as precise as these.
    """
    if difference(one, other, replace(equality, any_float=True)) is not None:
        return False
    seen = [_floats_of(observation) for observation in (one, other, wide)]
    sizes = {name: _rms(true) for name, true in seen[2].items()}
    gradients = {name: size for name, size in sizes.items() if name.startswith(_GRADIENTS)}
    largest = max(gradients.values(), default=0.0)
    sizes |= {name: largest for name, size in gradients.items() if size < _CANCELLED * largest}
    return {*seen[0]} == {*seen[1]} == {*seen[2]} and all(
        _rms(seen[1][name] - true) <= _LESS_ACCURATE * _rms(seen[0][name] - true) + _NARROW * sizes[name]
        for name, true in seen[2].items()
    )


def _floats_of(seen: Observation) -> dict[str, torch.Tensor]:
    """Return the floating-point tensors in an observation, in float64."""
    parts = {"output": seen.output, _GRADIENTS: seen.gradients, "state": seen.state}
    return {
        f"{part}{where}": tensor.detach().to_dense().double()
        for part, value in parts.items()
        for where, tensor in tensors_in(value)
        if tensor.is_floating_point()
    }


def _rms(tensor: torch.Tensor) -> float:
    """Return the root mean square. If some elements are not finite, it is NaN, which fails every comparison."""
    return float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0


def rounded(one: Observation, other: Observation) -> bool:
    """Return whether some gradients differ by rounding that `difference` allows."""
    pairs = ((left, other.gradients.get(name)) for name, left in one.gradients.items())
    return any(left is not None and right is not None and not _equal_bits(left, right) for left, right in pairs)


def _is_same_error(one: Observation, other: Observation, equality: Equality) -> bool:
    """Return whether two calls ended with the same exception. Operators can have other messages for the same inputs.

    If equality is practical, they can have other types, because an index out of bounds may have been a size.
    """
    if one.error is None or other.error is None or not (one.refused and other.refused):
        return one.error == other.error
    return equality.practical or one.error[0] == other.error[0]


def _raised(error: tuple[str, str] | None) -> str:
    return "none" if error is None else f"{error[0]}({(error[1].splitlines() or [''])[0][:160]!r})"


def _listed(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    lost = [item for item in one if item not in other]
    new = [item for item in other if item not in one]
    parts = [f"{', '.join(lost)} before but not after"] if lost else []
    parts += [f"{', '.join(new)} after but not before"] if new else []
    return "; ".join(parts) or "another order"


def _gradients_differ(one: Observation, other: Observation, equality: Equality) -> str | None:
    for name in dict.fromkeys([*one.gradients, *other.gradients]):
        left, right = one.gradients.get(name), other.gradients.get(name)
        if equality.compiled:
            left = torch.zeros_like(right) if left is None and right is not None else left
            right = torch.zeros_like(left) if right is None and left is not None else right
        if left is None or right is None:
            zeros = right is not None and not right.to_dense().any()
            if left is not right and not (zeros and equality.practical):
                became = "some became none" if right is None else f"none became {'zeros' if zeros else 'some'}"
                return f"gradient of {name}: {became}"
            continue
        found = _differ(f"gradient of {name}", left, right, equality, set())
        if found and not _equal_sums(left, right):
            return found
    return None


def _equal_sums(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two gradients may be sums of the same numbers in a different order."""
    if (one.dtype, one.shape, one.layout) != (other.dtype, other.shape, other.layout):
        return False
    # Narrower dtypes are too imprecise to tell rounding from a real difference.
    wide = one.dtype in (torch.float32, torch.float64)
    return wide and _within(one, other, _MOST_ROUNDED * torch.finfo(one.dtype).eps)


def _states_differ(one: Observation, other: Observation, equality: Equality) -> str | None:
    scripts = {name.removesuffix(SCRIPT) for state in (one.state, other.state) for name in state if SCRIPT in name}
    for name in dict.fromkeys([*one.state, *other.state]):
        number = name.rpartition(".")[2] in equality.numbers
        if (name in one.state) != (name in other.state):
            if number or equality.compiled:
                continue  # The compiler adds attributes.
            if name.rpartition(".")[0] + "." in scripts:
                continue  # One is a module, and the other is its TorchScript version.
            return f"{_kept(name)}: {'gone' if name in one.state else 'new'}"
        left, right = one.state[name], other.state[name]
        if number:
            left, right = as_numbers(left, right)
        unmoved = equality.autocast or name.rpartition(".")[2] in equality.unmoved
        if equality.practical and unmoved and isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
            right = right.to(left)
        if found := _differ(_kept(name), left, right, equality, set()):
            return found
    return None


def _kept(name: str) -> str:
    return name if name.startswith(("global ", "closure ")) else f"attribute {name}"


def _differ(where: str, one: Any, other: Any, equality: Equality, seen: set[tuple[int, int]]) -> str | None:
    """Compare two values of any kind. Types are compared by name, because each version has its own classes."""
    if (id(one), id(other)) in seen or len(seen) > _MOST_COMPARED:
        return None
    if _is(one, torch.Tensor) and _is(other, torch.Tensor):
        return _tensors_differ(where, one, other, equality)
    if type(one).__qualname__ != type(other).__qualname__:
        return f"{where}: {worded(one)} became {worded(other)}"
    if _is(one, PLAIN):
        return None if _equal_plain(one, other, equality) else f"{where}: {worded(one)} became {worded(other)}"
    seen.add((id(one), id(other)))
    left, right = _children(one), _children(other)
    if left is None or right is None:
        return None
    if [key for key, _ in left] != [key for key, _ in right]:
        if len(left) != len(right):
            return f"{where}: {len(left)} items became {len(right)}"
        return f"{where}: {[key for key, _ in left]} became {[key for key, _ in right]}"
    for (key, item), (_, counterpart) in zip(left, right, strict=True):
        found = _differ(f"{where}{key}", item, counterpart, equality, seen)
        if found:
            return found
    return None


def _is(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Like `isinstance`, except that a mock is not an instance of the class that it imitates."""
    return issubclass(type(value), kinds)


def _children(value: Any) -> list[tuple[str, Any]] | None:
    """Return the items in a value with the path to each, or None if only its type is compared."""
    if isinstance(value, Mapping):
        return [
            (f"[{'a tensor' if isinstance(key, torch.Tensor) else repr(key)}]", item) for key, item in value.items()
        ]
    if isinstance(value, set | frozenset):
        return [(f"[{text}]", None) for text in sorted(ADDRESS.sub("0x", repr(item)) for item in value)]
    if isinstance(value, list | tuple) or (hasattr(value, "__iter__") and type(value).__module__ == "collections"):
        return [(f"[{position}]", item) for position, item in enumerate(value)]
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        return [("", torch.as_tensor(value))] if value.dtype.kind in "biufc" else [("", value.tolist())]
    if isinstance(value, type | nn.Module) or callable(value):
        return None
    attributes = getattr(value, "__dict__", None)
    return None if attributes is None else [(f".{name}", item) for name, item in attributes.items()]


def _equal_plain(one: Any, other: Any, equality: Equality) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        close = (equality.compiled or equality.practical or not equality.exact) and math.isclose(
            one, other, rel_tol=1e-5, abs_tol=1e-7
        )
        return close or one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, str) and isinstance(other, str):
        return ADDRESS.sub("0x", one) == ADDRESS.sub("0x", other)
    return bool(one == other)


def _tensors_differ(where: str, one: torch.Tensor, other: torch.Tensor, equality: Equality) -> str | None:
    floats = one.is_floating_point() and other.is_floating_point()
    if equality.converted and floats and where.startswith("output") and not one.to_dense().any():
        one = one.to(other.dtype)
    for name in ("dtype", "shape", "device", "layout"):
        left, right = getattr(one, name), getattr(other, name)
        if left != right:
            return f"{where}: {name} {short(left)} became {short(right)}"
    # The gradients of inputs and parameters show whether the output's gradient is zero.
    unused = not one.requires_grad or not equality.backward
    if one.requires_grad != other.requires_grad and not (
        equality.compiled or (equality.practical and where.startswith("output") and unused)
    ):
        return f"{where}: requires_grad {one.requires_grad} became {other.requires_grad}"
    left, right = one.detach(), other.detach()
    if equality.any_float and left.is_floating_point():
        return None
    rounds = equality.computed_in is not None or not equality.exact or equality.compiled
    same = close(left, right, equality.computed_in) if rounds else _equal_bits(left, right)
    # A sum that cancels out leaves nothing but rounding errors, which only an absolute tolerance allows.
    if same or (equality.practical and _within_tolerances(left, right)):
        return None
    before, after = numbers(one), numbers(other)
    return f"{where}: {_first_apart(left, right)}" if before == after else f"{where}: {before} became {after}"


def _first_apart(one: torch.Tensor, other: torch.Tensor) -> str:
    """Describe the first element that differs, for tensors whose first few elements look the same."""
    one, other = one.to_dense().cpu(), other.to_dense().cpu()
    apart = ~torch.isclose(one, other, rtol=0.0, atol=0.0, equal_nan=True) if one.is_floating_point() else one != other
    if not apart.any():
        return f"{numbers(one)} became another {numbers(other)}"
    place = tuple(apart.nonzero()[0].tolist())
    return f"{one[place].item()} became {other[place].item()} at {list(place)}"


def _equal_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether all numbers are the same. NaN equals NaN, and zeros are equal regardless of sign."""
    try:
        # Most tensors are equal, and this check is many times cheaper. It is inconclusive only for NaN.
        if torch.equal(one, other):
            return True
    except (RuntimeError, NotImplementedError):
        pass
    try:
        torch.testing.assert_close(one, other, rtol=0.0, atol=0.0, equal_nan=True)
    except (AssertionError, RuntimeError, NotImplementedError):
        return False
    return True


def _within_tolerances(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether numbers agree within the default tolerances of `torch.testing.assert_close`."""
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except (AssertionError, RuntimeError, NotImplementedError):
        return False
    return True


def close(one: torch.Tensor, other: torch.Tensor, computed_in: torch.dtype | None = None) -> bool:
    """Return whether numbers differ at most by rounding, relative to the largest number.

    The precision is that of their dtype, or of the dtype that they were computed in.
    """
    if not (one.is_floating_point() or one.is_complex()) or not one.numel():
        return _equal_bits(one, other)
    return _within(one, other, math.sqrt(torch.finfo(computed_in or one.dtype).eps), 1e-6)


def _within(one: torch.Tensor, other: torch.Tensor, share: float, least: float = 0.0) -> bool:
    """Return whether numbers differ by at most a fraction of the largest. NaN equals NaN, and infinity itself."""
    one, other = (tensor.detach().to_dense() for tensor in (one, other))
    finite = torch.nan_to_num(one.abs(), nan=0.0, posinf=0.0)
    allowed = share * max(float(finite.max()), least)
    try:
        torch.testing.assert_close(one, other, rtol=0.0, atol=allowed, equal_nan=True)
    except (AssertionError, RuntimeError, NotImplementedError):
        return False
    return True
