"""Dividing a test of a Python value and a tensor, so that each has an `if` of its own.

    if flag and t:          if flag:                     if flag or t:          if flag:
        y = a                   if t:                        y = a                  y = a
    else:                           y = a                else:                  elif t:
        y = b                   else:                        y = b                  y = a
                                    y = b                                       else:
                            else:                                                   y = b
                                y = b

The code that comes twice then is short, and what the flag switches off is still not computed. It does the same; the
tensor's `if` is rewritten along with it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.blocks import is_elif, statements_after
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.raising import never_raises
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import indentation, indented, inner_indentation
from dynalint_rules._shared.truth import is_tensor_test, truth_of
from dynalint_rules._shared.uncompiled import as_operand

_TITLE = "Test the Python value in an `if` of its own, and compute both sides of the tensor's"
_LEFT = ("DYN101", "DYN106", "DYN107", "DYN202")
_MOST_REPEATED = 10
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.expr_context, ast.UnaryOp, ast.Not)


def rewrite_divided(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` or `elif` that asks a Python value and a tensor, None if it is something else."""
    test = statement.test
    if not isinstance(test, ast.BoolOp):
        return None
    parts, lines = _parts(scope, test), _Lines.of(scope, statement)
    if parts is None or lines is None:
        return None
    divided = lines.after_or(*parts.texts) if isinstance(test.op, ast.Or) else lines.after_and(*parts.texts)
    if divided is None:
        return None
    replacements = (Replacement(scope.file, *scope.file.span(statement), divided),)
    conditions = tuple(f"{scope.quote(value)} does not raise" for value in parts.late if not _is_certain(scope, value))
    return Rewrite(_TITLE, "conditional" if conditions else "safe", replacements, conditions, leaves=_LEFT)


def _is_certain(scope: Scope, value: ast.expr) -> bool:
    """Whether asking for the truth of a value raises for no input."""
    return never_raises(scope, value) and truth_of(scope, value).scalar


@dataclass(frozen=True)
class _Parts:
    """The text of what asks Python values and of what asks tensors; `late` are the latter asked first so far."""

    texts: tuple[str, str]
    late: tuple[ast.expr, ...]


def _parts(scope: Scope, test: ast.BoolOp) -> _Parts | None:
    """Take a test apart, None if it cannot be.

    The Python values are asked first afterwards. Where they were not before, neither may tell of the other.
    """
    tensors = [is_tensor_test(scope, value) for value in test.values]
    if all(tensors) or not any(tensors):
        return None
    start, end = tensors.index(True), len(tensors) - tensors[::-1].index(False)
    late = tuple(value for value, is_tensor in zip(test.values[:end], tensors, strict=False) if is_tensor)
    passed = [value for value, is_tensor in zip(test.values[start:], tensors[start:], strict=True) if not is_tensor]
    if not all(is_pure(scope, value) for value in late) or not all(map(_is_plain, passed)):
        return None
    texts = [scope.text(value) for value in test.values]
    if any("\n" in text or "\r" in text for text in texts):
        return None
    word = " or " if isinstance(test.op, ast.Or) else " and "
    texts = [as_operand(scope, value) for value in test.values]
    one, other = (
        word.join(text for text, is_tensor in zip(texts, tensors, strict=True) if is_tensor is wanted)
        for wanted in (False, True)
    )
    return _Parts((one, other), late)


def _is_plain(value: ast.expr) -> bool:
    """Whether a value is but asked for, which does nothing and does not raise."""
    return all(isinstance(node, _PLAIN) for node in walk(value))


@dataclass(frozen=True)
class _Lines:
    """The lines of one `if` or `elif`: its first one around the test, its body, what comes for it else.

    `tail` are those that follow to the end of the function, where the branch may return before them. `own` and `inner`
    are the indentation of the branch and of its body.
    """

    keyword: str
    opening: str
    body: str
    other: str
    tail: str
    own: str
    inner: str
    newline: str

    @classmethod
    def of(cls, scope: Scope, branch: ast.If) -> _Lines | None:
        """Return the lines of a branch, None where they hold something else as well."""
        file = scope.file
        first, last, after = branch.lineno, branch.end_lineno or branch.lineno, statements_after(scope, branch)
        own, opening = indentation(file, first), file.text[file.span(branch.test)[1] :].splitlines()[0]
        if branch.test.end_lineno != first or branch.body[0].lineno == first or not re.match(r"\s*:\s*(#|$)", opening):
            return None
        middle = last + 1
        if branch.orelse:
            begins = [n for n in range(first + 1, last + 1) if re.match(rf"{own}(else|elif)\b", file.line(n))]
            between = [n for n in begins if (branch.body[-1].end_lineno or 0) < n <= branch.orelse[0].lineno]
            if not between:
                return None
            middle = between[0]
        tail = ""
        if any(isinstance(node, ast.Return) for node in walk(branch)) and not is_elif(scope, branch):
            if after and not isinstance(after[-1], ast.Return):
                return None
            tail = cls._text(file, last + 1, (after[-1].end_lineno or 0) + 1) if after else ""
        body, other = cls._text(file, first + 1, middle), cls._text(file, middle, last + 1)
        keyword = "elif" if is_elif(scope, branch) else "if"
        return cls(keyword, opening, body, other, tail, own, inner_indentation(file, branch), file.newline)

    @staticmethod
    def _text(file: SourceFile, first: int, end: int) -> str:
        """Return some lines, without an ending where there is none."""
        return "".join(f"{file.newline}{file.line(number)}" for number in range(first, end))

    def after_and(self, python: str, tensors: str) -> str | None:
        """Return the lines for `python and tensors`, with what the test is false for twice."""
        if _count(self.other + self.tail) > _MOST_REPEATED:
            return None
        inside = f"{self.newline}{self.own}if {tensors}:{self.body}{self.other}{self.tail}"
        other, begin = self.other, f"{self.newline}{self.own}elif"
        if self.tail and other.startswith(begin):  # nothing comes by the first one, which returns
            other = f"{self.newline}{self.own}if{other.removeprefix(begin)}"
        return f"{self.keyword} {python}{self.opening}{indented(inside, self.inner[len(self.own) :])}{other}"

    def after_or(self, python: str, tensors: str) -> str | None:
        """Return the lines for `python or tensors`, with what the test is true for twice."""
        if _count(self.body) > _MOST_REPEATED or self.tail:
            return None
        again = f"{self.newline}{self.own}elif {tensors}:{self.body}{self.other}"
        return f"{self.keyword} {python}{self.opening}{self.body}{again}"


def _count(lines: str) -> int:
    return sum(bool(line.strip()) for line in lines.splitlines())
