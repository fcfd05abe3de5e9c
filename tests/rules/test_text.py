"""Calls that rewrites put together: one argument a line where they are too long, each call one step in."""

from __future__ import annotations

from dynalint_rules._shared.text import call, held_together


def test_a_wrapped_call_among_the_arguments_moves_in_by_a_step() -> None:
    value = "v" * 100
    inner = call("torch.where", ["c", value, '"""a\n  b"""'], column=4, indent="    ", newline="\n")
    assert call("torch.where", ["d", "x", inner], column=4, indent="    ", newline="\n").split("\n") == [
        "torch.where(",
        "        d,",
        "        x,",
        "        torch.where(",
        "            c,",
        f"            {value},",
        '            """a',
        '  b""",',
        "        ),",
        "    )",
    ]


def test_what_the_file_has_over_several_lines_stays_as_it_is() -> None:
    written = 'f("a"\n       "b")'
    assert call("check", [written], column=4, indent="    ", newline="\n") == f"check(\n        {written},\n    )"


def test_what_only_statements_would_hold_together_gets_parentheses() -> None:
    assert held_together("a\n+ b") == "(a\n+ b)"
    assert held_together("f(a,\nb)") == "f(a,\nb)"
