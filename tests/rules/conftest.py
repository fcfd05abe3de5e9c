"""The plugin that proves examples, also where dynalint is not installed but run from its checkout."""

from __future__ import annotations

import pytest

from dynalint.testing import plugin


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(plugin):
        config.pluginmanager.register(plugin, "dynalint")
