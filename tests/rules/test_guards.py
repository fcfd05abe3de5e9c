"""Statements put behind a guard or taken out: layout, neighbours, names for torch, what is declined."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rules import Declined, Example, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.side_effects.debugger import DebuggerCall
from dynalint_rules.side_effects.print_call import PrintCall

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, verbose: bool):\n"


def study(body: str, rule: Rule | None = None, head: str = HEAD, **options: object) -> Study:
    rule = rule or PrintCall()
    code = head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return Study(Case(rule, Example("x", code, options=options)), [rule])


def fixed(body: str, rule: Rule | None = None, head: str = HEAD, **options: object) -> str:
    return textwrap.dedent(study(body, rule, head, **options).fixed.removeprefix(head)).rstrip("\n")


def reason(body: str) -> str:
    answers = [found.answer for found in study(body).own]
    assert answers
    assert all(isinstance(answer, Declined) for answer in answers), answers
    return answers[0].reason  # type: ignore[union-attr]


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_keeps_the_comment_behind_the_statement() -> None:
    assert fixed("print(x)  # why\nreturn x") == lines(
        """
        if not torch.compiler.is_compiling():
            print(x)  # why
        return x
        """
    )


def test_strings_over_several_lines_stay_as_they_are() -> None:
    body = '''
    if verbose:
        x = x + 1
        print("""a
      b
    """, x,
              "c"
              "d")
    return x
    '''
    assert fixed(body) == lines(
        '''
        if verbose:
            x = x + 1
            if not torch.compiler.is_compiling():
                print("""a
          b
        """, x,
                      "c"
                      "d")
        return x
        '''
    )


def test_neighbours_share_a_guard_with_the_comments_between_them() -> None:
    body = """
    y = x + 1
    print(x)

    # and
    print(y)
    z = y + 1
    print(z)
    return z
    """
    assert fixed(body) == lines(
        """
        y = x + 1
        if not torch.compiler.is_compiling():
            print(x)

            # and
            print(y)
        z = y + 1
        if not torch.compiler.is_compiling():
            print(z)
        return z
        """
    )


def test_a_neighbour_with_an_effect_stays_out() -> None:
    body = """
    print(x)
    print(x.add_(1))
    return x
    """
    found = study(body).own
    assert [isinstance(one.answer, Declined) for one in found] == [False, True]
    assert "may have an effect of its own" in found[1].answer.reason  # type: ignore[union-attr]


def test_branches_on_one_line() -> None:
    body = """
    if verbose: print("a")
    else: print("b")
    return x
    """
    assert fixed(body) == lines(
        """
        if verbose:
            if not torch.compiler.is_compiling():
                print("a")
        else:
            if not torch.compiler.is_compiling():
                print("b")
        return x
        """
    )


@pytest.mark.parametrize(
    ("test", "joined"),
    [
        ("verbose", "verbose and not torch.compiler.is_compiling()"),
        ("not verbose", "not verbose and not torch.compiler.is_compiling()"),
        ("verbose or x.dim() > 2", "(verbose or x.dim() > 2) and not torch.compiler.is_compiling()"),
        ("(verbose or x.dim() > 2)", "(verbose or x.dim() > 2) and not torch.compiler.is_compiling()"),
        ("(verbose) and (x.dim() > 2)", "(verbose) and (x.dim() > 2) and not torch.compiler.is_compiling()"),
        ("verbose if x.dim() > 2 else 0", "(verbose if x.dim() > 2 else 0) and not torch.compiler.is_compiling()"),
    ],
)
def test_joins_the_branch_that_holds_nothing_else(test: str, joined: str) -> None:
    body = """
    if {}:  # why
        # what
        print("a")
        print(x)
    return x
    """
    assert fixed(body.format(test)) == lines(body.format(joined))


@pytest.mark.parametrize(
    ("test", "end"),
    [
        ("x.relu_().sum() > 1", ""),
        ("verbose", "else:\n    x = x + 1\n"),
        ("verbose", "elif x.dim() > 2:\n    x = x + 1\n"),
    ],
)
def test_a_branch_that_decides_about_more_keeps_its_test(test: str, end: str) -> None:
    assert fixed(f"if {test}:\n    print(x)\n{end}return x").startswith(f"if {test}:\n    if not torch.")


@pytest.mark.parametrize(
    ("test", "joined"),
    [
        ("x.isnan().any()", "not torch.compiler.is_compiling() and x.isnan().any()"),
        ("x.sum().item() > 1", "not torch.compiler.is_compiling() and x.sum().item() > 1"),
        ("(x.sum() > 1)", "not torch.compiler.is_compiling() and (x.sum() > 1)"),
        ("verbose and x.sum() > 1", "not torch.compiler.is_compiling() and verbose and x.sum() > 1"),
        ("x.sum() > 1 or verbose", "not torch.compiler.is_compiling() and (x.sum() > 1 or verbose)"),
    ],
)
def test_a_tensor_is_not_asked_for_a_print(test: str, joined: str) -> None:
    assert fixed(f"if {test}:\n    print(x)\nreturn x") == f"if {joined}:\n    print(x)\nreturn x"


def test_the_last_of_several_branches_is_joined_too() -> None:
    body = 'if x.dim() > 2:\n    x = x + 1\nelif verbose: print("b")\nreturn x'
    assert fixed(body).splitlines()[2] == 'elif verbose and not torch.compiler.is_compiling(): print("b")'


@pytest.mark.parametrize("statement", ["y = 1; print(x)", "print(x); y = 1", "if verbose: y = 1; print(x)"])
def test_declines_shared_lines(statement: str) -> None:
    assert "shares its line" in reason(f"{statement}\nreturn x")


@pytest.mark.parametrize("statement", ["y = print(x)", "verbose and print(x)", "[print(row) for row in x]"])
def test_declines_parts_of_expressions(statement: str) -> None:
    assert "part of a larger expression" in reason(f"{statement}\nreturn x")


@pytest.mark.parametrize("argument", ["x.mul_(2)", "(y := x + 1)", "torch.rand(3)", "next(iter([1]))", "*x.fill_(0)"])
def test_declines_arguments_with_effects(argument: str) -> None:
    assert "may have an effect of its own" in reason(f"print({argument})\nreturn x")


@pytest.mark.parametrize(
    "argument", ['f"{x.mean():.3f}"', "x.shape, len(x)", "x.sum().item()", "[row * 2 for row in x]"]
)
def test_takes_arguments_that_only_give_values(argument: str) -> None:
    assert "if not torch.compiler.is_compiling():" in fixed(f"print({argument})\nreturn x")


def test_uses_the_name_that_torch_has() -> None:
    head = "import torch as th\n\n\n@th.compile\ndef f(x: th.Tensor):\n"
    assert fixed("print(x)\nreturn x", head=head).startswith("if not th.compiler.is_compiling():")


def test_imports_torch_where_it_is_not() -> None:
    head = "from torch import compile, Tensor\n\n\n@compile\ndef f(x: Tensor):\n"
    text = study("print(x)\nreturn x", head=head).fixed
    assert "import torch\n" in text
    assert "if not torch.compiler.is_compiling():" in text


def test_tabs_and_windows_line_endings() -> None:
    code = "import torch\r\n\r\n\r\n@torch.compile\r\ndef f(x: torch.Tensor):\r\n\tprint(x)\r\n\treturn x\r\n"
    rule = PrintCall()
    text = Study(Case(rule, Example("x", code)), [rule]).fixed
    assert "\tif not torch.compiler.is_compiling():\r\n\t\tprint(x)\r\n\treturn x\r\n" in text


def test_removes_whole_lines_on_request() -> None:
    body = """
    print(x)  # why
    if verbose:
        print("a")
    y = 1
    return x
    """
    assert fixed(body, **{"print-fix": "remove"}) == lines(
        """
        if verbose:
            pass
        y = 1
        return x
        """
    )


def test_removes_the_debugger_behind_its_import() -> None:
    assert fixed("import pdb; pdb.set_trace()\nreturn x", DebuggerCall()) == "import pdb\nreturn x"


def test_prints_on_the_way_to_an_exception_are_left_alone() -> None:
    body = """
    if x.dim() != 2:
        print("bad", x)
        raise ValueError
    try:
        y = x + 1
    except RuntimeError:
        print("failed")
        raise
    return y
    """
    assert study(body).own == []


def test_a_name_that_only_type_checkers_see_is_not_used() -> None:
    head = HEAD.replace("import torch\n", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n")
    head = head.replace("@torch.compile", "from torch import compile\n@compile")
    answers = [found.answer for found in study("print(x)\nreturn x", head=head).own]
    assert [getattr(answer, "reason", "") for answer in answers] == [
        "torch is imported for type checkers only here; import it in the function first"
    ]
    both = head.replace("    import torch\n", "    import torch\nelse:\n    import torch\n")
    assert "if not torch.compiler.is_compiling()" in fixed("print(x)\nreturn x", head=both)
