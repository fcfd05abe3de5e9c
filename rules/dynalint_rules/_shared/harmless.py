"""Names for what is harmless where it is not wanted, computed before a choice.

What a branch leaves unread on one side still gets zeros of gradient there, once both sides are always computed. Where
that is to be computed once more, `b = safe_x * safe_y` before the choice takes the place of what `b` was.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dynalint.analysis import kinds as k
from dynalint.analysis.steps import walk
from dynalint_rules._shared.choice import escaped, rendered
from dynalint_rules._shared.domain import Guard, Guarded, Recomputed, parts_of, recomputed
from dynalint_rules._shared.faint import is_wanted_by
from dynalint_rules._shared.liveness import is_dead_after
from dynalint_rules._shared.names import is_bound_before, is_named, kind_of_name, last_value
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import held_together


@dataclass
class Harmless:
    """The names given so far, by the text of what they stand for; `taken` gives those that are not free."""

    scope: Scope
    taken: Callable[[], Iterable[str]]
    names: dict[str, str] = field(default_factory=dict)
    _written: list[str] = field(default_factory=list)

    def lines(self, changed: Iterable[str] = ()) -> list[str]:
        """Return the assignments since the last call, each of which reads but names of those before.

        What reads a name of `changed` is another thing from here on.
        """
        found = [f"{name} = {held_together(text)}" for text, name in self.names.items() if name not in self._written]
        self._written += self.names.values()
        again = set(changed)
        self.names = {text: name for text, name in self.names.items() if again.isdisjoint(re.findall(r"\w+", text))}
        return found

    def named(self, text: str, stem: str) -> str:
        """Return a name for what is computed before the first choice."""
        if text not in self.names:
            self.names[text] = self.scope.fresh_name(
                f"safe_{stem}", [*self.taken(), *self.names.values(), *self._written]
            )
        return self.names[text]

    def with_names(
        self, text: str, guards: Sequence[Guard], guard: str, skip: Callable[[ast.Name], bool] = lambda _: False
    ) -> str:
        """Return a text with names for its harmless operands, but for those outside of what is recomputed to `skip`."""
        for one in parts_of(guards):
            if isinstance(one, Guarded) and isinstance(one.node, ast.Name) and not (one in guards and skip(one.node)):
                name = self.scope.renamed.get(one.node, one.node.id)
                operand = guard.format(operand=name, safe=one.safe)
                if operand != name and operand in text:
                    text = text.replace(operand, self.named(operand, one.node.id))
        return text


@dataclass(frozen=True)
class Apart:
    """What to compute once more in the place of a name that but some sides of a branch use, `using` by number."""

    name: str
    using: tuple[int, ...]
    again: Recomputed

    def line(self, harmless: Harmless, guard: str) -> str:
        """Return the statement, in which `guard` is for what the sides that use it alone may be given."""
        text = rendered(harmless.scope, self.again.node, [self.again], guard)
        return f"{self.name} = {held_together(harmless.with_names(text, [self.again], guard))}"


def used_apart(scope: Scope, head: ast.stmt, sides: Sequence[Sequence[ast.stmt]]) -> list[Apart]:
    """Return what to compute once more, that which nothing else is computed from first."""
    found = []
    for name in _latest_first(scope, head):
        using = tuple(index for index, side in enumerate(sides) if is_wanted_by(scope, name, side, head))
        again = recomputed(scope, ast.Name(name, ast.Load()), head) if 0 < len(using) < len(sides) else None
        if again is not None:
            found.append(Apart(name, using, again))
    return found


def set_apart(scope: Scope, apart: Sequence[Apart], tests: Sequence[str]) -> list[str]:
    """Return statements that compute once more what some sides of a branch alone use, of something harmless elsewhere.

    `tests` are names of tensors that tell which side is taken, but for the last: no two of them hold.
    """
    harmless = Harmless(scope, lambda: tests)
    lines = [one.line(harmless, _guard(scope, one.using, tests)) for one in apart]
    return [*harmless.lines(), *lines]


def is_read_once(scope: Scope, one: Apart, head: ast.stmt, sides: Sequence[Sequence[ast.stmt]]) -> bool:
    """Whether all that is used of a name is a single read on one side."""
    reads = [node for side in sides for part in side for node in walk(part) if is_named(node, one.name)]
    return len(one.using) == 1 and len(reads) == 1 and is_dead_after(scope, one.name, head)


def _latest_first(scope: Scope, head: ast.stmt) -> Iterator[str]:
    """Yield what may be tensors from before a branch, the one that was computed last, of which no other is, first."""
    made = {name: last_value(scope, name, head) for name in scope.function.locals if is_bound_before(scope, name, head)}
    known = [(found[0].lineno, name) for name, found in made.items() if found is not None]
    for _, name in sorted(known, reverse=True):
        kind = kind_of_name(scope, name, head)
        if k.may_be_tensor(kind) or isinstance(kind, k.Unknown):
            yield name


def _guard(scope: Scope, using: Sequence[int], tests: Sequence[str]) -> str:
    """A format for operands that some sides may be given as they are."""
    where, last = f"{scope.torch}.where", len(tests)
    wanted = [index for index in range(last) if (index in using) is not (last in using)]
    test = escaped(" | ".join(tests[index] for index in wanted))
    return f"{where}({test}, {{safe}}, {{operand}})" if last in using else f"{where}({test}, {{operand}}, {{safe}})"
