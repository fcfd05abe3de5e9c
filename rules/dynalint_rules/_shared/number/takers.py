"""Functions that accept a tensor where they are given a number, and torch functions that replace those of `math`."""

from __future__ import annotations

_COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne", "greater", "greater_equal", "less", "less_equal", "not_equal")
_ARITHMETIC = ("add", "sub", "mul", "div", "remainder", "fmod")

EXTREMES = frozenset({"builtins.min", "builtins.max"})

COMPARING = frozenset(f"{owner}.{name}" for owner in ("torch", "Tensor") for name in _COMPARISONS)
"""Functions whose result is a bool tensor, whatever dtype the number has."""

TAKES_EITHER: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "torch.full": ((1,), ("fill_value",)),
    "torch.where": ((1, 2), ("input", "other")),
    "torch.masked_fill": ((2,), ("value",)),
    "Tensor.masked_fill": ((1,), ("value",)),
    "Tensor.masked_fill_": ((1,), ("value",)),
    "Tensor.fill_": ((0,), ("value",)),
    "Tensor.where": ((1,), ("other",)),
    "torch.nn.functional.gumbel_softmax": ((1,), ("tau",)),
    "torch.pow": ((1,), ("exponent",)),
    "Tensor.pow": ((0,), ("exponent",)),
    "torch.lerp": ((2,), ("weight",)),
    "Tensor.lerp": ((1,), ("weight",)),
    "Tensor.lerp_": ((1,), ("weight",)),
    **{f"torch.{name}": ((1,), ("other",)) for name in (*_ARITHMETIC, *_COMPARISONS)},
    **{f"Tensor.{name}": ((0,), ("other",)) for name in (*_ARITHMETIC, *_COMPARISONS)},
    **{f"Tensor.{name}_": ((0,), ("other",)) for name in _ARITHMETIC},
    **{f"torch.clamp_{name}": ((1,), (name,)) for name in ("min", "max")},
    **{f"Tensor.clamp_{name}": ((0,), (name,)) for name in ("min", "max")},
}
"""The positional arguments (without a receiver) and keywords that accept a tensor."""

IN_TORCH = {
    **{name: name for name in "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh floor ceil".split()},
    **{name: name for name in "asin acos atan asinh acosh atanh erf erfc lgamma".split()},
    "fabs": "abs",
    "degrees": "rad2deg",
}
"""The torch functions that replace `math` functions with a single argument."""

WHOLE = ("floor", "ceil")
"""Functions that return integers in Python but not in torch."""
