"""Names for what is harmless where it is not wanted, computed before a choice.

What a branch leaves unread on one side still gets zeros of gradient there, once both sides are always computed. Where
that is to be computed once more, `b = safe_x * safe_y` before the choice takes the place of what `b` was.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dynalint.analysis import kinds as k
from dynalint_rules._shared.choice import escaped, rendered
from dynalint_rules._shared.domain import Guard, Guarded, parts_of, recomputed
from dynalint_rules._shared.liveness import is_used_by
from dynalint_rules._shared.names import is_bound_before, kind_of_name, last_value
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import held_together


@dataclass
class Harmless:
    """The names given so far, by the text of what they stand for; `taken` gives those that are not free."""

    scope: Scope
    taken: Callable[[], Iterable[str]]
    names: dict[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """The assignments, each of which reads but names of those before."""
        return [f"{name} = {held_together(text)}" for text, name in self.names.items()]

    def named(self, text: str, stem: str) -> str:
        """Return a name for what is computed before the first choice."""
        if text not in self.names:
            self.names[text] = self.scope.fresh_name(f"safe_{stem}", [*self.taken(), *self.names.values()])
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


def set_apart(scope: Scope, head: ast.stmt, sides: Sequence[Sequence[ast.stmt]], tests: Sequence[str]) -> list[str]:
    """Return statements that compute once more what some sides of a branch alone use, of something harmless elsewhere.

    `tests` are names of tensors that tell which side is taken, but for the last: no two of them hold.
    """
    tests = tests or [""] * (len(sides) - 1)
    harmless, lines = Harmless(scope, lambda: tests), []
    for name in _latest_first(scope, head):
        using = [index for index, side in enumerate(sides) if is_used_by(scope, name, side, head)]
        again = recomputed(scope, ast.Name(name, ast.Load()), head) if 0 < len(using) < len(sides) else None
        if again is None:
            continue
        guard = _guard(scope, using, tests)
        text = harmless.with_names(rendered(scope, again.node, [again], guard), [again], guard)
        lines.append(f"{name} = {held_together(text)}")
    return [*harmless.lines, *lines]


def _latest_first(scope: Scope, head: ast.stmt) -> Iterator[str]:
    """Yield the tensors from before a branch, the one that was computed last first, which no other is computed from."""
    made = {name: last_value(scope, name, head) for name in scope.function.locals if is_bound_before(scope, name, head)}
    known = [(found[0].lineno, name) for name, found in made.items() if found is not None]
    for _, name in sorted(known, reverse=True):
        if k.may_be_tensor(kind_of_name(scope, name, head)):
            yield name


def _guard(scope: Scope, using: Sequence[int], tests: Sequence[str]) -> str:
    """A format for operands that some sides may be given as they are."""
    where, last = f"{scope.torch}.where", len(tests)
    wanted = [index for index in range(last) if (index in using) is not (last in using)]
    test = escaped(" | ".join(tests[index] for index in wanted))
    return f"{where}({test}, {{safe}}, {{operand}})" if last in using else f"{where}({test}, {{operand}}, {{safe}})"
