"""Guess plain argument values from defaults, annotations and common names. Needs torch only for `nn` types.

Sizes are small and consistent. Every width is 16, every number of heads divides it, and every length is the same. A
guess may be wrong, so the caller runs the code and uses the error.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import itertools
import re
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .large_models import built
from .small_configs import is_configuration, shrunk

WIDTH = 16
# These differ from each other and from common sizes, so that dimensions are not equal by coincidence.
BATCH = 5
LENGTH = 7


class PassThrough(nn.Identity):  # type: ignore[misc]
    """A placeholder for a module argument. It returns its first argument."""

    def forward(self, given: Any, *_args: Any, **_kwargs: Any) -> Any:
        """Return the first argument."""
        return given


PLACEHOLDER = PassThrough()

# The first pattern that matches a whole parameter name, or its part after an underscore, gives the value.
_BY_NAME: tuple[tuple[str, Any], ...] = (
    (r"(act|norm)\w*_layer|\w+_(cls|class)", PassThrough),
    (r"(pad(ding)?|blank|bos|eos|sos|unk|cls|sep|mask|start|end|ignored?)_(token_)?(idx|index|id|label)", 0),
    (r"(num_|n_?)?(attention_)?heads?|nheads?|num_groups", 4),
    (r"(num_key_value|num_kv|n_kv)_heads", 4),
    (r"(num_|n_)?((hidden|encoder|decoder)_)?(layers?|blocks?|stages?)|depth|repeats?|(num_|n_)?(experts|steps)", 2),
    (r"top_?k|k", 2),
    (r"head_dim|d_head|d_k|d_v|dim_head", 4),
    (r"(n_?|spatial_?)dims?|dimensions?", 2),
    (r"vocab(ulary)?(_size)?|num_embeddings|n?_?tokens|num_tokens|input_vocab\w*|(src|tgt)_vocab\w*|ntoken", 32),
    (r"(num_|n_)?(classes|labels|outputs|actions)|out(put)?_(features|dim|size|channels)|n_?out", 8),
    (r"(img|image|input)_(size|resolution)|resolution", 32),
    (r"patch(_size)?", 8),
    (r"kernel(_size)?|ks|window(_size)?", 3),
    (r"stride|dilation|groups|expansion|expand\w*|factor|scale_factor", 1),
    (r"padding|pad", 1),
    (r"reduction|ratio|se_ratio|mlp_ratio|r", 4),
    (r"(max_?)?(seq(uence)?_?)?len(gth)?|max_position\w*|block_size|context\w*|n_ctx|seq_length|max_len|timesteps", 32),
    (r"\w*drop(out|_path)?(_?(rate|prob|p))?|p|prob", 0.0),
    (r"(\w*_|layernorm)?eps(ilon)?|tol\w*|temperature|tau|alpha|beta|gamma|momentum|decay|lr|std|scale|slope", 0.1),
    (r"threshold|weight", 0.1),
    (r"(use|is|has|with|return|add|do|apply|no|enable|need|normalize)_\w+|bias|training|verbose|debug|causal", False),
    (r"d_\w+|\w*(dim|size|channels?|features?|planes|hidden|width|units|ch)", WIDTH),
    (r"act\w*|activation|nonlinearity", nn.ReLU()),
    (r"norm", PLACEHOLDER),
    (r"\w*(backbone|encoder|decoder|module|model|net|layer|block|head|body|fn|func)", PLACEHOLDER),
    (r"name|mode|\w*_type|type|kind", "none"),
    (r"device", torch.device("cpu")),
    (r"dtype", torch.float32),
    (r"\w*(sizes|dims|shape|features_list|channels_list|widths)", [WIDTH, WIDTH]),
)


SETTINGS = ("config", "cfg", "conf", "args", "opt", "opts", "hparams", "params", "settings")


class NoGuessError(Exception):
    """No plausible value is known for a parameter. The message names it."""


class GuessedConfig:
    """A placeholder for a config whose class is unknown. Every attribute is guessed from its name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = by_name(name)
        object.__setattr__(self, name, value)
        return value

    def __getitem__(self, name: str) -> Any:
        return getattr(self, str(name))

    def __iter__(self) -> Iterator[str]:
        # Otherwise, Python would ask for items 0, 1, 2, ... without end.
        return iter(vars(self))

    def get(self, _name: str, default: Any = None) -> Any:
        """Return the default, as a dict does if a key is missing."""
        return default

    def __repr__(self) -> str:
        return "config"


@dataclasses.dataclass(frozen=True)
class GuessLevel:
    """A guess's nesting depth, and how to reduce configs in the arguments.

    Widths are divided by `divisor`.
    """

    divisor: int = 1
    depth: int = 0

    def below(self) -> GuessLevel:
        """Return the level for nested arguments."""
        return dataclasses.replace(self, depth=self.depth + 1)


# These are compiled once before processes are forked. Otherwise, each process would have to fill `re`'s cache.
_NAMES = tuple((re.compile(f"({pattern})|\\w+_({pattern})"), value) for pattern, value in _BY_NAME)


def by_name(name: str) -> Any:
    """Return a typical value for a parameter with this name. An unknown name is treated as a width."""
    bare = name.strip("_").lower()
    for pattern, value in _NAMES:
        if pattern.fullmatch(bare):
            return value
    return WIDTH


def for_parameter(name: str, annotation: Any, level: GuessLevel | None = None) -> Any:
    """Guess a value for a parameter. Raises NoGuessError if no instance of its annotation can be made."""
    level = level or GuessLevel()
    if name.strip("_").lower() in SETTINGS:
        made = _instance(annotation, level)
        return GuessedConfig() if made is None else made
    if isinstance(annotation, str) or annotation in (inspect.Parameter.empty, Any, None, object):
        return by_name(name)
    return _by_annotation(name, annotation, level)


def _by_annotation(name: str, hint: Any, level: GuessLevel) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        choices = [choice for choice in arguments if choice is not type(None)]
        return _by_annotation(name, choices[0], level)
    if origin is typing.Literal:
        return arguments[0]
    if origin is typing.Annotated:
        return _by_annotation(name, arguments[0], level)
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable, set):
        item = _by_annotation(name.rstrip("s"), arguments[0] if arguments else int, level)
        return [item, item]
    if origin is tuple:
        items = arguments if arguments and arguments[-1] is not Ellipsis else (*arguments[:1], *arguments[:1])
        return tuple(_by_annotation(name.rstrip("s"), item, level) for item in items)
    if origin in (dict, collections.abc.Mapping):
        return {}
    if origin is type:
        return PassThrough
    if origin is collections.abc.Callable or hint in (typing.Callable, collections.abc.Callable):
        return PLACEHOLDER
    guess = _plain(name, hint)
    if guess is None:
        guess = _instance(hint, level)
    if guess is None:
        raise NoGuessError(f"nothing is known about parameter {name!r} ({getattr(hint, '__name__', hint)})")
    return guess


def _plain(name: str, hint: Any) -> Any:
    """Return a guess for a builtin or torch type, or None for any other type."""
    guess = by_name(name)
    if hint is bool:
        return guess if isinstance(guess, bool) else False
    if hint is int:
        return guess if type(guess) is int else WIDTH
    if hint is float:
        return float(guess) if type(guess) in (int, float) else 0.1
    if hint is str:
        return guess if isinstance(guess, str) else "none"
    if hint in (list, tuple, dict, set):
        return guess if isinstance(guess, hint) else hint()
    if hint is torch.Tensor:
        return torch.randn(WIDTH)
    if hint is torch.dtype:
        return torch.float32
    if hint is torch.device:
        return torch.device("cpu")
    if hint is nn.Module:
        return guess if isinstance(guess, nn.Module) else PLACEHOLDER
    return None


def _instance(hint: Any, level: GuessLevel) -> Any:
    """Make an instance of a class with guessed arguments, or return None if the hint is not a suitable class."""
    if not isinstance(hint, type) or level.depth > 3 or hint.__module__ in ("builtins", "inspect", "typing", "torch"):
        return None
    if issubclass(hint, enum.Enum):
        return next(iter(hint), None)
    hint = _concrete(hint)
    given = constructor_arguments(hint, level.below())
    made = built(hint, given)
    return shrunk(made, given, level.divisor) if level.divisor > 1 and is_configuration(hint) else made


def _concrete(cls: type) -> type:
    """Return a class, or a subclass of an abstract class. If none is imported, its methods return their argument."""
    if not inspect.isabstract(cls):
        return cls
    below: list[type] = cls.__subclasses__()
    while below:
        known = next((one for one in below if not inspect.isabstract(one)), None)
        if known is not None:
            return known
        below = list(itertools.chain.from_iterable(one.__subclasses__() for one in below))
    methods = dict.fromkeys(cls.__abstractmethods__, PassThrough.forward)  # type: ignore[attr-defined]
    return type(cls)(cls.__name__, (cls,), methods)


def constructor_arguments(cls: type, level: GuessLevel | None = None) -> dict[str, Any]:
    """Guess the arguments that have no default, by name. Raises NoGuessError if one of them cannot be guessed."""
    if dataclasses.is_dataclass(cls):
        hints = hints_of(cls)
        missing = dataclasses.MISSING
        needed = [
            f for f in dataclasses.fields(cls) if f.init and f.default is missing and f.default_factory is missing
        ]
        return {item.name: for_parameter(item.name, hints.get(item.name, Any), level) for item in needed}
    return {name: for_parameter(name, _declared(cls, name, hint), level) for name, hint in required_parameters(cls)}


def _declared(cls: type, name: str, hint: Any) -> Any:
    """Return the config class that a class declares in its body, if the parameter has no useful annotation."""
    annotated = isinstance(hint, type) and hint is not inspect.Parameter.empty
    if annotated or name not in SETTINGS:
        return hint
    declared = getattr(cls, f"{name}_class", None)
    if not isinstance(declared, type):
        declared = hints_of(cls).get(name)
    return declared if isinstance(declared, type) else hint


def required_parameters(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and annotation of each parameter without a default that can be passed by name."""
    hints = hints_of(getattr(function, "__init__", function) if isinstance(function, type) else function)
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    for parameter in signature.parameters.values():
        if parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        ):
            yield parameter.name, hints.get(parameter.name, parameter.annotation)


def hints_of(function: Any) -> dict[str, Any]:
    """Return the resolved annotations of a callable, or of a class and its bases. Others are left out."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations are user code
        found: dict[str, Any] = {}
        for owner in reversed(getattr(function, "__mro__", (function,))):
            names = vars(sys.modules.get(getattr(owner, "__module__", ""), object))
            for name, hint in getattr(owner, "__annotations__", {}).items():
                resolved = names.get(hint) if isinstance(hint, str) else hint
                if isinstance(resolved, type):
                    found[name] = resolved
        return found
