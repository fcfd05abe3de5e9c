"""Test helpers that assert that a model compiles and that rules do what their examples say."""

from __future__ import annotations

from dynalint.testing.compiles import assert_compiles

__all__ = ["assert_compiles"]
