"""Text that rewrites put together."""

from __future__ import annotations

from dynalint_rules._shared.text import held_together


def test_what_only_statements_would_hold_together_gets_parentheses() -> None:
    assert held_together("a\n+ b") == "(a\n+ b)"
    assert held_together("f(a,\nb)") == "f(a,\nb)"
