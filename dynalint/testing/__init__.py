"""Test helpers: assert that a model compiles, and that rules keep the promises of their examples."""

from __future__ import annotations

from dynalint.testing.compiles import assert_compiles

__all__ = ["assert_compiles"]
