"""A project to explain, and explanations made by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.explaining import Explanation, explain, find_target


def _configuration(folder: Path) -> Configuration:
    # Nothing here is anybody's else code: it may run where no sandbox holds.
    layer = parse_layer({"confirm": "always"}, folder, lambda _: "test")
    return Configuration(Overrides((layer,), isolated=True), frozenset(), folder)


@pytest.fixture(scope="session")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Explanation]:
    """Explain `Model` of a text, by the command's own way."""

    def run(text: str, name: str = "Model", **options: str) -> Explanation:
        folder = tmp_path_factory.mktemp("project")
        (folder / "model.py").write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        target, settings, workspace = find_target(f"model.py::{name}", _configuration(folder), folder)
        return explain(target, settings, workspace, **options)

    return run
