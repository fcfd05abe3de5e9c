"""Names that indicate a tensor: attributes that tensors have and other objects in user code are unlikely to have."""

from __future__ import annotations

import collections
import decimal
import fractions
import logging
import pathlib
import re
from collections.abc import Iterable

import torch
from torch.distributions import Distribution
from torch.nn.utils.rnn import PackedSequence

_OTHERS: tuple[type, ...] = (
    str, bytes, bytearray, list, tuple, dict, set, frozenset, int, float, complex, bool, range,
    collections.OrderedDict, collections.deque, collections.Counter, collections.defaultdict, decimal.Decimal,
    fractions.Fraction, logging.Logger, pathlib.Path, re.Pattern, re.Match,
    torch.Size, torch.Generator, torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.ParameterDict,
    torch.optim.Optimizer, PackedSequence, torch.device, torch.dtype,
)  # fmt: skip

# Attributes of tensors that are just as common on users' own objects, such as configs, batches, nodes and dates.
_GENERIC = set(
    """
    H T add align apply apply_ array_split backward bool byte char clone col count cov cpu cross crow cuda data
    decode dense det device diff dist dsplit dtype eig elapsed empty equal fill fill_ float get
    get_device grad grad_fn half hash imag index inner int ipu is_complete itemsize layout lerp less logical long lu
    map map_ mean mode module name names negative new normal numpy path permutation positive put qr real
    record_stream refine_names register_hook rename renamed reset resize resolve roll rot rotate sample scale
    select set set_ shape share short size_ slice solve sort split storage swap take test tile to to_list
    trace transform type union update vander values indices var variance xpu zero zero_ pin_memory mtia copy_
    volatile
    """.split()
)


def tensor_only(names: Iterable[str]) -> list[str]:
    """Return the names in `torch.Tensor` that are evidence that an object is a tensor, sorted."""
    elsewhere = set().union(*map(dir, _OTHERS), *map(dir, _all_subclasses(Distribution)), dir(torch.nn.Module()))
    return sorted(name for name in names if not name.startswith("_") and name not in elsewhere | _GENERIC)


def _all_subclasses(cls: type) -> set[type]:
    return {cls}.union(*map(_all_subclasses, cls.__subclasses__()))
