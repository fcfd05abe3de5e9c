"""Reduce configs, so that a model of any size builds quickly and runs in little memory.

A config is an object whose class has defaults for all fields. It is a dataclass, or a class whose constructor takes
keyword arguments. Fields are classified by name. All widths are divided by the same number, so that their ratios and
sums still match. Numbers of heads and channels stay the same. Layers, experts, vocabularies and positions are reduced
to a few, because nothing else depends on them.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

DIVISORS = (16, 8, 4, 2)

# If widths are reduced less, more layers are kept, because some models need a layer of each kind.
_LAYERS = {16: 2, 8: 4, 4: 8, 2: 8}
_EXPERTS = 4
_VOCABULARY = 128
_POSITIONS = 512
_PICTURE = 224
_SMALLEST = 16

_TOKEN = re.compile(r"\w+_(token_id|token_index|token)|(pad|bos|eos|cls|sep|mask|unk|blank)\w*_id")
# The first pattern that matches the whole name decides how the value changes.
_KINDS: tuple[tuple[str, str], ...] = (
    (
        r"\w*(hidden_(size|dim)|head_(dim|size)|embed_dim|intermediate_size|ffn_dim|mlp_dim|_dims?)\w*|d_head|d_kv",
        "width",
    ),
    (r"(num_|n_)?(\w+_)?(layers?|depths?)|n_layer|(num|n)_\w*blocks", "layers"),
    (r"\w*vocab\w*|num_embeddings|codebook_size", "vocabulary"),
    (r"((num|n)_(\w+_)?)experts", "experts"),
    (r"n_group|topk_group|(num_)?expert_groups?", "groups"),
    (r"\w*(experts_per_tok\w*|top_?k(_experts)?|moe_k)", "choices"),
    (r"\w*(position|positions|n_ctx|context_length)(_embeddings)?|max_seq\w*|max_len\w*", "positions"),
    (r"\w*(image|img)_(size|resolution)|\w*_resolution", "picture"),
    (
        (
            r"\w*(heads?|kernel|patch|window|stride|chunk|batch|ratio|num_channels|in_chans|pool|groups|crop|type|max|grid"
            r"|frame|context|seq|conv_size|merge|sampl|rate|padding|index|indices|layer)\w*|input_size|num_mel_bins"
            r"|feature_size"
        ),
        "kept",
    ),
    (
        (
            r"\w*(hidden|dims?|size|sizes|width|channels?|embd|inner|units|features|filters|rank|planes|section)|d_\w+"
            r"|\w*(hidden|ffn|dim|channels|width|proj)_\w+|qk_\w+|lru_width"
        ),
        "width",
    ),
)


def is_configuration(cls: type) -> bool:
    """Return whether a class is a config, judging by its name or because it is a dataclass."""
    named = re.search(r"(Config|Configuration|Settings|Options|Params|Hyperparameters|Args|HParams)$", cls.__name__)
    return named is not None or dataclasses.is_dataclass(cls)


def shrunk(instance: Any, given: Mapping[str, Any], divisor: int) -> Any:
    """Return a smaller instance of the same class. `given` are arguments that it needs.

    If the class rejects the changes, the instance itself is returned.
    """
    found = changed_values(dict(_fields(instance)), divisor, partial(value_of, instance))
    changes = {name: value for name, value in found if name not in given}
    try:
        return type(instance)(**{**changes, **given})
    except Exception:  # noqa: BLE001 - user code
        return instance


def changed_values(
    fields: Mapping[str, Any], divisor: int, worked_out: Callable[[str], Any] = lambda _: None
) -> Iterator[tuple[str, Any]]:
    """Yield the fields that change, with their new values.

    If a field is None, its class computes the value, and `worked_out` returns it. Of these, only sizes in a dict are
    changed.
    """
    most = _LAYERS.get(divisor, 2)
    layers = next((value for name, value in fields.items() if _kind(name) == "layers" and type(value) is int), None)
    vocabulary = next((v for n, v in fields.items() if _kind(n) == "vocabulary" and type(v) is int), None)
    tokens = _VOCABULARY
    for name, value in fields.items():
        if is_configuration(type(value)) and not isinstance(value, type):
            yield name, shrunk(value, {}, divisor)
        elif _TOKEN.fullmatch(name) and type(value) is int:
            if value >= _VOCABULARY and (vocabulary is None or vocabulary > value or vocabulary > _VOCABULARY):
                # Special tokens must stay distinct, so they are moved to the end of the vocabulary.
                tokens -= 1
                yield name, tokens
        else:
            known = worked_out(name) if value is None else value
            changed = _changed(name, known, divisor, layers, most)
            if changed != known and (value is not None or isinstance(changed, dict)):
                yield name, changed


def value_of(instance: Any, name: str) -> Any:
    """Return a config field's value, or None if it does not exist or cannot be read."""
    try:
        return getattr(instance, name, None)
    except Exception:  # noqa: BLE001 - user code
        return None


def defaults_of(cls: type) -> dict[str, Any]:
    """Return the default of each field that a config's constructor takes, or `Parameter.empty` if it has none."""
    empty = inspect.Parameter.empty
    if dataclasses.is_dataclass(cls):
        missing = dataclasses.MISSING
        fields = (item for item in dataclasses.fields(cls) if item.init)
        return {item.name: empty if item.default is missing else item.default for item in fields}
    try:
        parameters = inspect.signature(cls).parameters.values()
    except ValueError:
        return {}
    return {item.name: item.default for item in parameters if item.kind in (1, 3)}


def _fields(instance: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields that the constructor takes. If a field is a config or is required, use its current value."""
    for name, default in defaults_of(type(instance)).items():
        value = value_of(instance, name)
        is_settings = value is not None and is_configuration(type(value))
        yield name, value if is_settings or default is inspect.Parameter.empty else default


def _kind(name: str) -> str:
    return next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, name)), "kept")


def _changed(name: str, value: Any, divisor: int, layers: int | None, most: int) -> Any:
    kind = _kind(name)
    if isinstance(value, dict):
        return {key: _changed(str(key), item, divisor, layers, most) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if layers is not None and len(value) == layers > most and kind != "width":
            # Keep a layer of each kind if kinds are named.
            kinds = [item for at, item in enumerate(value) if isinstance(item, str) and item not in value[:at]]
            return type(value)([*kinds, *value][:most])
        if kind in ("width", "layers") and all(type(item) is int for item in value):
            return type(value)(_number(kind, item, divisor, most) for item in value)
        return value
    return _number(kind, value, divisor, most) if type(value) is int else value


def _number(kind: str, value: int, divisor: int, layers: int) -> int:
    if kind == "width":
        return value // divisor if value % divisor == 0 and value >= _SMALLEST else value
    most = {
        "layers": layers,
        "vocabulary": _VOCABULARY,
        "experts": _EXPERTS,
        "groups": 1,
        "choices": 2,
        "positions": _POSITIONS,
    }
    if kind == "picture":
        return _PICTURE if value > _PICTURE + 32 else value
    return min(value, most.get(kind, value))
