"""Statements put behind a guard or taken out: layout, neighbours, names for torch, what is declined."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import Declined, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.side_effects.clock import ClockCall
from dynalint_rules.side_effects.debugger import DebuggerCall
from dynalint_rules.side_effects.log_call import LogCall
from dynalint_rules.side_effects.print_call import PrintCall

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, verbose: bool):\n"


def study(body: str, rule: Rule | None = None, head: str = HEAD, **options: object) -> StaticView:
    rule = rule or PrintCall()
    code = head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return StaticView(Case(rule, Example("x", code, options=options)), [rule])


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


def test_statements_behind_the_test_get_a_line_of_their_own_if_they_no_longer_fit() -> None:
    long = "the shape of what comes in, and then some more words about it"
    test = "if verbose and not torch.compiler.is_compiling()"
    assert fixed(f'if verbose: print("{long}", x.shape, x)\nreturn x') == lines(
        f"""
        {test}:
            print("{long}", x.shape, x)
        return x
        """
    )
    assert fixed(f'if verbose: print("{long}"); print("again", x)\nreturn x') == lines(
        f"""
        {test}:
            print("{long}")
            print("again", x)
        return x
        """
    )
    assert fixed("if verbose: print(x)\nreturn x") == f"{test}: print(x)\nreturn x"


def test_loops_that_only_print_are_skipped_as_a_whole() -> None:
    body = """
    for i in range(2):
        x = x + i
    for i in range(2):
        for j in range(2):
            print(i, j)
    print(x)
    return x
    """
    assert fixed(body) == lines(
        """
        for i in range(2):
            x = x + i
        if not torch.compiler.is_compiling():
            for i in range(2):
                for j in range(2):
                    print(i, j)
            print(x)
        return x
        """
    )


@pytest.mark.parametrize("end", ["return x + i", "for i in range(i):\n    x = x + 1\nreturn x"])
def test_loops_whose_last_value_is_read_still_run(end: str) -> None:
    body = f"for i in range(2):\n    print(i)\n{end}"
    guard = "for i in range(2):\n    if not torch.compiler.is_compiling():\n        print(i)\n"
    assert fixed(body) == f"{guard}{end}"


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
    assert "may have a side effect" in found[1].answer.reason  # type: ignore[union-attr]


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
        ("(x.sum() > 1)", "not torch.compiler.is_compiling() and x.sum() > 1"),
        ("verbose and x.sum() > 1", "not torch.compiler.is_compiling() and verbose and x.sum() > 1"),
        ("x.sum() > 1 or verbose", "not torch.compiler.is_compiling() and (x.sum() > 1 or verbose)"),
    ],
)
def test_a_tensor_is_not_asked_for_a_print(test: str, joined: str) -> None:
    assert fixed(f"if {test}:\n    print(x)\nreturn x") == f"if {joined}:\n    print(x)\nreturn x"


STATEFUL = """\
import torch


class Model(torch.nn.Module):
  def __init__(self):
    super().__init__()
    self.calls, self.every = 0, 3

  def forward(self, x):
    self.calls += 1
"""


def test_a_test_of_changing_state_comes_after_the_guard() -> None:
    body = "if self.{}:\n    print(x)\nreturn x"
    counted = fixed(body.format("calls % 10 == 0"), head=STATEFUL)
    assert counted.startswith("if not torch.compiler.is_compiling() and self.calls % 10 == 0:")
    assert fixed(body.format("every"), head=STATEFUL).startswith("if self.every and not torch.compiler.is_compiling():")


def test_the_last_of_several_branches_is_joined_too() -> None:
    body = 'if x.dim() > 2:\n    x = x + 1\nelif verbose: print("b")\nreturn x'
    assert fixed(body).splitlines()[2] == 'elif verbose and not torch.compiler.is_compiling(): print("b")'


def test_what_is_computed_for_a_print_goes_behind_the_same_guard() -> None:
    branch = "if x.sum() > 1:\n    m = x.mean().item()\n    print(m)\nreturn {}"
    assert fixed(branch.format("x")).startswith("if not torch.compiler.is_compiling() and x.sum() > 1:\n    m = ")
    assert "    if not torch.compiler.is_compiling():" in fixed(f"m = 0\n{branch.format('x * m')}")


@pytest.mark.parametrize(
    ("statement", "apart"),
    [
        ("y = 1; print(x)", "y = 1\n{}"),
        ("print(x); y = 1", "{}\ny = 1"),
        ("if verbose: x = 1; print(x)", "if verbose:\n    x = 1\n    {}"),
    ],
)
def test_takes_shared_lines_apart(statement: str, apart: str) -> None:
    step = "    " * (2 if apart.endswith("    {}") else 1)
    guarded = f"if not torch.compiler.is_compiling():\n{step}print(x)"
    assert fixed(f"{statement}\nreturn x") == f"{apart.format(guarded)}\nreturn x"


@pytest.mark.parametrize("statement", ["y = print(x)", "verbose and print(x)", "[print(row) for row in x]"])
def test_declines_parts_of_expressions(statement: str) -> None:
    assert "part of a larger expression" in reason(f"{statement}\nreturn x")


@pytest.mark.parametrize("argument", ["x.mul_(2)", "(y := x + 1)", "torch.rand(3)", "next(iter([1]))", "*x.fill_(0)"])
def test_declines_arguments_with_effects(argument: str) -> None:
    assert "may have a side effect" in reason(f"print({argument})\nreturn x")


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
    text = StaticView(Case(rule, Example("x", code)), [rule]).fixed
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
        # why
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
        "torch is imported only for type checkers here; import it in the function first"
    ]
    both = head.replace("    import torch\n", "    import torch\nelse:\n    import torch\n")
    assert "if not torch.compiler.is_compiling()" in fixed("print(x)\nreturn x", head=both)


_OBJECTS = """
import torch

CALLS: list[int] = []


class Shown:
    def __str__(self) -> str:
        CALLS.append(1)
        return "shown"


class Sized:
    def __len__(self) -> int:
        CALLS.append(1)
        return 3


class Ordered:
    def __lt__(self, other: object) -> bool:
        CALLS.append(1)
        return True


class Told:
    def __repr__(self) -> str:
        return "told"


shown = Shown()
sized = Sized()
ordered = Ordered()
told = Told()


@torch.compile
def f(x: torch.Tensor, verbose: bool, names: dict[str, int]):
"""


@pytest.mark.parametrize(
    "text",
    [
        "shown",
        "[shown]",
        "str(shown)",
        "f'{shown}'",
        "f'{shown:>9}'",
        "'{}'.format(shown)",
        "'%s' % shown",
        "len(sized)",
        "bool(sized)",
        "list(sized)",
        "1 if sized else 2",
        "sized and 2",
        "not sized",
        "ordered < told",
    ],
)
def test_what_is_shown_has_no_effect_of_its_own(text: str) -> None:
    answers = [found.answer for found in study(f"print({text})\nreturn x", head=_OBJECTS).own]
    assert len(answers) == 1
    assert isinstance(answers[0], Declined)
    assert "effect" in answers[0].reason


def test_what_only_tells_of_itself_is_shown_in_eager_code() -> None:
    assert "is_compiling" in fixed("print(told, f'{told}', str(told), len('a'))\nreturn x", head=_OBJECTS)


@pytest.mark.parametrize("text", ["names['a']", "x[7]", "f'{x[7]}'", "'%d' % x.dim()", "float(names['a'])", "y"])
@pytest.mark.parametrize("around", ["try", "with"])
def test_what_may_raise_stays_where_the_function_goes_by_it(text: str, around: str) -> None:
    body = f"if verbose:\n    y = 1\nwith suppress(KeyError):\n    print({text})\n    x = x + 1\nreturn x"
    if around == "try":
        body = f"if verbose:\n    y = 1\ntry:\n    print({text})\nexcept KeyError:\n    x = x + 1\nreturn x"
    answers = [found.answer for found in study(body, head=f"from contextlib import suppress\n{_OBJECTS}").own]
    assert len(answers) == 1
    assert isinstance(answers[0], Declined)
    assert "may raise" in answers[0].reason


@pytest.mark.parametrize("text", ["'a'", "x", "x.shape, x.dtype", "f'{x.sum()} of {x.shape}'", "verbose, sep=''"])
def test_what_cannot_raise_is_shown_in_eager_code(text: str) -> None:
    body = f"try:\n    print({text})\nexcept KeyError:\n    x = x + 1\nreturn x"
    assert "is_compiling" in fixed(body, head=_OBJECTS)


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    x = x + 1\nexcept KeyError:\n    print(names['a'])\nreturn x",
        "try:\n    x = x + 1\nfinally:\n    print(names['a'])\nreturn x",
        "try:\n    print(names['a'])\nfinally:\n    x = x + 1\nreturn x",
    ],
)
def test_what_may_raise_is_shown_where_nothing_goes_by_it(body: str) -> None:
    assert "is_compiling" in fixed(body, head=_OBJECTS)


def test_what_stands_beside_a_clock_does_not_raise_where_the_function_goes_by_it() -> None:
    head = f"import time\n{_OBJECTS}"
    body = (
        "try:\n    start = time.time()\n    print(time.time() - start, {})\nexcept KeyError:\n    x = x + 1\nreturn x"
    )
    assert "is_compiling" in fixed(body.format("x.shape"), ClockCall(), head)
    answers = [found.answer for found in study(body.format("names['a']"), ClockCall(), head).own]
    assert [isinstance(one, Declined) and "may raise" in one.reason for one in answers] == [True, True]


def test_a_level_is_asked_in_eager_code_if_what_is_logged_cannot_raise() -> None:
    head = f"import logging\nlogger = logging.getLogger('a')\n{_OBJECTS}"
    body = "try:\n    if logger.isEnabledFor(10):\n        logger.debug({})\nexcept KeyError:\n    x = x + 1\nreturn x"
    assert "if not torch.compiler.is_compiling() and logger" in fixed(body.format("'%s', x"), LogCall(), head)
    answers = [found.answer for found in study(body.format("names['a']"), LogCall(), head).own]
    assert all(isinstance(one, Declined) for one in answers)


def test_a_test_that_may_raise_is_asked_where_the_function_goes_by_it() -> None:
    body = "try:\n    if {} > 0:\n        print('a')\nexcept IndexError:\n    x = x + 1\nreturn x"
    assert "if not torch.compiler.is_compiling() and x.sum() > 0" in fixed(body.format("x.sum()"), head=_OBJECTS)
    assert "if x[7] > 0:" in fixed(body.format("x[7]"), head=_OBJECTS)


@pytest.mark.parametrize("rest", ["CALLS.pop()", "sized", "names.popitem()"])
def test_what_is_asked_behind_a_level_has_no_effect_of_its_own(rest: str) -> None:
    head = f"import logging\nlogger = logging.getLogger('a')\n{_OBJECTS}"
    body = f"if logger.isEnabledFor(10) and {rest}:\n    logger.debug('a')\nreturn x"
    answers = [found.answer for found in study(body, LogCall(), head).own]
    assert isinstance(answers[0], Declined)


@pytest.mark.parametrize(
    ("body", "moved"),
    [
        ("text = f'{x.sum().item()}'\nprint(text)\nreturn x", True),
        ("unread = x.sum()\nprint('a')\nreturn x", False),
        ("text = f'{x.sum()}'\nprint(text)\nreturn x, text", False),
        ("text = f'{x.shape}'\nprint(text)\nreturn x", False),
    ],
)
def test_only_text_that_nothing_else_reads_moves_with_its_output(body: str, moved: bool) -> None:
    first = body.partition("\n")[0]
    assert (f"is_compiling():\n    {first}" in fixed(body)) == moved
