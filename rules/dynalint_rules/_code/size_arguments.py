"""Torch and NumPy functions that take sizes, counts and bounds, with the positions of these arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import k

_ALL = 99
# The positions (without a receiver, end excluded) and keywords of arguments that are sizes or counts.
SIZES: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "builtins.range": (0, _ALL, ()),
    **{f"numpy.{name}": (0, _ALL, ("shape", "N")) for name in ("arange", "zeros", "ones", "empty", "eye", "full")},
    "numpy.linspace": (2, 3, ("num",)),
    "numpy.reshape": (1, 2, ("shape",)),
    **{f"torch.{name}": (0, _ALL, ("size",)) for name in ("zeros", "ones", "empty", "rand", "randn", "eye")},
    "torch.arange": (0, _ALL, ("start", "end", "step")),
    "torch.linspace": (2, 3, ("steps",)),
    "torch.full": (0, 1, ("size",)),
    "torch.randint": (0, _ALL, ("size", "low", "high")),
    "torch.randperm": (0, 1, ("n",)),
    "torch.split": (1, 2, ("split_size_or_sections",)),
    "torch.chunk": (1, 2, ("chunks",)),
    "torch.narrow": (2, 4, ("start", "length")),
    "torch.reshape": (1, 2, ("shape",)),
    "torch.tile": (1, 2, ("dims",)),
    "torch.topk": (1, 2, ("k",)),
    "torch.roll": (1, 2, ("shifts",)),
    "torch.tril": (1, 2, ("diagonal",)),
    "torch.triu": (1, 2, ("diagonal",)),
    **{f"Tensor.{name}": (0, _ALL, ("size", "shape")) for name in ("view", "reshape", "expand", "repeat", "tile")},
    **{f"Tensor.{name}": (0, _ALL, ("size",)) for name in ("new_zeros", "new_ones", "new_empty")},
    "Tensor.new_full": (0, 1, ("size",)),
    "Tensor.split": (0, 1, ("split_size",)),
    "Tensor.chunk": (0, 1, ("chunks",)),
    "Tensor.narrow": (1, 3, ("start", "length")),
    "Tensor.topk": (0, 1, ("k",)),
    "Tensor.roll": (0, 1, ("shifts",)),
    "Tensor.select": (1, 2, ("index",)),
    "Tensor.tril": (0, 1, ("diagonal",)),
    "Tensor.triu": (0, 1, ("diagonal",)),
    "Tensor.unfold": (1, 3, ("size", "step")),
    "torch.unflatten": (2, 3, ("sizes",)),
    "Tensor.unflatten": (1, 2, ("sizes",)),
    "torch.as_strided": (1, 4, ("size", "stride", "storage_offset")),
    "Tensor.as_strided": (0, 3, ("size", "stride", "storage_offset")),
    **{f"torch.{name}_indices": (0, _ALL, ("row", "col", "offset")) for name in ("tril", "triu")},
    "torch.kthvalue": (1, 2, ("k",)),
    "Tensor.kthvalue": (0, 1, ("k",)),
    "torch.multinomial": (1, 2, ("num_samples",)),
    "Tensor.multinomial": (0, 1, ("num_samples",)),
    "torch.normal": (2, 3, ("size",)),
    "torch.logspace": (2, 3, ("steps",)),
    "torch.select": (2, 3, ("index",)),
    "torch.histc": (1, 2, ("bins",)),
    "torch.rot90": (1, 2, ("k",)),
    "torch.diag": (1, 2, ("diagonal",)),
    "torch.diagonal": (1, 2, ("offset",)),
    "Tensor.diagonal": (0, 1, ("offset",)),
    "torch.diag_embed": (1, 2, ("offset",)),
    "torch.repeat_interleave": (0, 0, ("output_size",)),
    "Tensor.repeat_interleave": (0, 0, ("output_size",)),
    "torch.stft": (1, 4, ("n_fft", "hop_length", "win_length")),
    "torch.istft": (1, 4, ("n_fft", "hop_length", "win_length", "length")),
    **{f"torch.fft.{name}": (1, 2, ("n",)) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"torch.{name}_window": (0, 1, ("window_length",)) for name in ("hann", "hamming", "blackman", "bartlett")},
    **{
        f"torch.nn.functional.adaptive_{kind}_pool{dims}d": (1, 2, ("output_size",))
        for kind in ("avg", "max")
        for dims in (1, 2, 3)
    },
    **{
        f"torch.nn.functional.{kind}_pool{dims}d": (1, 4, ("kernel_size", "stride", "padding"))
        for kind in ("avg", "max")
        for dims in (1, 2, 3)
    },
    "torch.nn.functional.pad": (1, 2, ("pad",)),
    "torch.nn.functional.interpolate": (1, 2, ("size",)),
    "torch.nn.functional.one_hot": (1, 2, ("num_classes",)),
}


def callee_name(callee: k.Kind) -> str:
    """Return the name of an external function or a tensor method (`Tensor.view`), or "" for anything else."""
    if isinstance(callee, k.External):
        return callee.name
    if isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor) and not callee.receiver.array:
        return f"Tensor.{callee.name}"
    return ""


def sizes(callee: str, node: ast.Call) -> Iterator[ast.expr]:
    """Yield the size arguments of a call to `callee`. If arguments are passed with `*`, there are none."""
    first, last, keywords = SIZES.get(callee, (0, 0, ()))
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    yield from node.args[first:last]
    yield from (keyword.value for keyword in node.keywords if keyword.arg in keywords)
