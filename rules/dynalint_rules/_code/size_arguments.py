"""Torch and NumPy functions that take sizes, counts and bounds, with the positions of these arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import k
from dynalint_rules._code.integer_arguments import positions

_ALL = 99
_POOL = [f"torch.nn.functional.{{}}{kind}_pool{dims}d" for kind in ("avg", "max") for dims in (1, 2, 3)]
# The names of parameters that are sizes or counts, and the functions in which torch's data says where they are.
_PARAMETERS: tuple[tuple[str, str], ...] = (
    ("bins", "torch.histc"),
    ("chunks", "torch.chunk Tensor.chunk"),
    ("diagonal", "torch.tril torch.triu torch.diag Tensor.tril Tensor.triu"),
    ("dims", "torch.tile"),
    ("index", "torch.select Tensor.select"),
    ("k", "torch.topk torch.kthvalue torch.rot90 Tensor.topk Tensor.kthvalue"),
    ("kernel_size stride padding", " ".join(name.format("") for name in _POOL)),
    ("n", "torch.randperm " + " ".join(f"torch.fft.{name}fft" for name in ("", "i", "r", "ir", "h", "ih"))),
    ("n_fft hop_length win_length", "torch.stft"),
    ("num_classes", "torch.nn.functional.one_hot"),
    ("num_samples", "torch.multinomial Tensor.multinomial"),
    ("offset", "torch.diagonal torch.diag_embed Tensor.diagonal"),
    ("output_size", " ".join(name.format("adaptive_") for name in _POOL)),
    ("pad", "torch.nn.functional.pad"),
    ("shape", "torch.reshape"),
    ("shifts", "torch.roll Tensor.roll"),
    ("size", "torch.full torch.nn.functional.interpolate Tensor.new_full"),
    ("size step", "Tensor.unfold"),
    ("size stride storage_offset", "torch.as_strided Tensor.as_strided"),
    ("sizes", "torch.unflatten Tensor.unflatten"),
    ("split_size", "Tensor.split"),
    ("split_size_or_sections", "torch.split"),
    ("start length", "torch.narrow Tensor.narrow"),
    ("steps", "torch.linspace torch.logspace"),
    ("window_length", " ".join(f"torch.{name}_window" for name in ("hann", "hamming", "blackman", "bartlett"))),
)
# The positions (without a receiver, end excluded) and keywords of arguments that are sizes or counts.
SIZES: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "builtins.range": (0, _ALL, ()),
    **{f"numpy.{name}": (0, _ALL, ("shape", "N")) for name in ("arange", "zeros", "ones", "empty", "eye", "full")},
    "numpy.linspace": (2, 3, ("num",)),
    "numpy.reshape": (1, 2, ("shape",)),
    **{f"torch.{name}": (0, _ALL, ("size",)) for name in ("zeros", "ones", "empty", "rand", "randn", "eye")},
    "torch.arange": (0, _ALL, ("start", "end", "step")),
    "torch.randint": (0, _ALL, ("size", "low", "high")),
    **{f"Tensor.{name}": (0, _ALL, ("size", "shape")) for name in ("view", "reshape", "expand", "repeat", "tile")},
    **{f"Tensor.{name}": (0, _ALL, ("size",)) for name in ("new_zeros", "new_ones", "new_empty")},
    **{f"torch.{name}_indices": (0, _ALL, ("row", "col", "offset")) for name in ("tril", "triu")},
    "torch.normal": (2, 3, ("size",)),
    "torch.repeat_interleave": (0, 0, ("output_size",)),
    "Tensor.repeat_interleave": (0, 0, ("output_size",)),
    "torch.istft": (1, 4, ("n_fft", "hop_length", "win_length", "length")),
    **{
        name: (*positions(name, words.split()), tuple(words.split()))
        for words, names in _PARAMETERS
        for name in names.split()
    },
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
