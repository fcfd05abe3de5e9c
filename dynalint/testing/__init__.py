"""For tests: that a model compiles, and that rules keep what their examples promise."""

from __future__ import annotations

from dynalint.testing.compiles import assert_compiles

__all__ = ["assert_compiles"]
