"""Replace downloaded weights with those that a model is built with, because nothing can be downloaded in the sandbox.

The values of weights rarely decide where a graph breaks, and much code in tests and documentation asks for weights.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch import hub, nn

_MARK = "not downloaded"


@contextlib.contextmanager
def without_downloads() -> Iterator[None]:
    """Save an empty state for each download. Loading it changes nothing."""
    load = nn.Module.load_state_dict

    def download(url: str, place: str, *_: Any, **__: Any) -> None:
        torch.save({_MARK: torch.zeros(0)}, place)

    def loaded(module: nn.Module, state: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        return load(module, module.state_dict() if _MARK in state else state, *args, **kwargs)

    with (
        mock.patch.object(hub, "download_url_to_file", download),
        mock.patch.object(nn.Module, "load_state_dict", loaded),
    ):
        yield
