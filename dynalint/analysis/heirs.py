"""What instances of a class or any below it have: the methods that are called on them, and what they hold.

Who has looked below a class is interpreted again when more is found there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dynalint.analysis.index import ClassInfo
from dynalint.analysis.kinds import Instance, Kind

if TYPE_CHECKING:
    from dynalint.analysis.frame import Context, Frame
    from dynalint.analysis.hierarchy import Reached
    from dynalint.analysis.interpreter import Interpreter

Contexts = dict["Context", None]


class Heirs:
    """The contexts that have looked below a class."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._callers: dict[ClassInfo, Contexts] = {}
        self._readers: dict[ClassInfo, dict[str, Contexts]] = {}
        self._asked: dict[ClassInfo, set[str]] = {}

    def methods(self, frame: Frame, instance: Instance, name: str) -> Reached:
        """Return the methods that a call of `name` on an instance may reach, each with what it is called on."""
        if instance.below and frame.context is not None:
            self._callers.setdefault(instance.cls, {})[frame.context] = None
        return self._interpreter.project.find_methods(instance, name)

    def read(self, cls: ClassInfo, name: str, frame: Frame) -> Kind:
        """Return what the classes below one hold under `name`; their constructors and other writers are run for it."""
        asked = self._asked.setdefault(cls, set())
        if name not in asked:
            asked.add(name)
            for one in self._interpreter.project.below(cls):
                self._interpreter.attributes.initialise(one)
                self._interpreter.attributes.run_writers(one, name)
        self.note_reader(cls, name, frame.context)
        return self._interpreter.project.join_subclasses(cls, name)

    def note_reader(self, cls: ClassInfo, name: str, context: Context | None) -> None:
        """Have a context run again when a class below one holds something else under `name`."""
        if context is not None:
            self._readers.setdefault(cls, {}).setdefault(name, {})[context] = None

    def note_stored(self, cls: ClassInfo, name: str, kind: Kind) -> None:
        """Take note of all that a class holds under `name`, which is more than it was."""
        for base in self._interpreter.project.note_stored(cls, name, kind):
            self._again(self._readers.get(base, {}).get(name, ()))

    def note_new(self, above: Iterable[ClassInfo]) -> None:
        """Take note that there may be instances of one more class, by all that it inherits from."""
        for base in above:
            self._again(self._callers.pop(base, ()))
            for name in self._asked.pop(base, ()):
                self._again(self._readers.get(base, {}).get(name, ()))

    def _again(self, contexts: Iterable[Context]) -> None:
        for context in list(contexts):
            context.outdated = True
            self._interpreter.enqueue(context)
