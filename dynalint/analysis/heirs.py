"""The methods and attributes that instances of a class or any of its subclasses have.

A context that has queried a class's subclasses is rerun when they gain methods or attributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dynalint.analysis.index import ClassInfo
from dynalint.analysis.kinds import Instance, Kind

if TYPE_CHECKING:
    from dynalint.analysis.frame import Context, Engine, Frame
    from dynalint.analysis.hierarchy import Reached

Contexts = dict["Context", None]


class Heirs:
    """The contexts that have queried a class's subclasses."""

    def __init__(self, interpreter: Engine) -> None:
        self._interpreter = interpreter
        self._callers: dict[ClassInfo, Contexts] = {}
        self._readers: dict[ClassInfo, dict[str, Contexts]] = {}
        self._asked: dict[ClassInfo, set[str]] = {}
        self._run: dict[tuple[ClassInfo, str], set[ClassInfo]] = {}

    def methods(self, frame: Frame, instance: Instance, name: str) -> Reached:
        """Return the methods that calling `name` on an instance can reach, each with its receiver."""
        if instance.below and frame.context is not None:
            self._callers.setdefault(instance.cls, {})[frame.context] = None
            self._interpreter.note_effect("below", instance.cls, name)
        return self._interpreter.project.find_methods(instance, name)

    def read(self, cls: ClassInfo, name: str, frame: Frame) -> Kind:
        """Return the kind of attribute `name` in a class's subclasses.

        Their constructors and other writers run first.
        """
        self._interpreter.note_effect("held", cls, name)
        asked = self._asked.setdefault(cls, set())
        if name not in asked:
            asked.add(name)
            run = self._run.setdefault((cls, name), set())
            for one in self._interpreter.project.below(cls):
                if one not in run:
                    run.add(one)
                    self._interpreter.attributes.initialise(one)
                    self._interpreter.attributes.run_writers(one, name)
        self.note_reader(cls, name, frame.context)
        return self._interpreter.project.join_subclasses(cls, name)

    def note_reader(self, cls: ClassInfo, name: str, context: Context | None) -> None:
        """Rerun a context when attribute `name` changes in a subclass of `cls`."""
        if context is not None:
            self._readers.setdefault(cls, {}).setdefault(name, {})[context] = None

    def note_stored(self, cls: ClassInfo, name: str, kind: Kind) -> None:
        """Record the kind of an attribute after it has grown."""
        for base in self._interpreter.project.note_stored(cls, name, kind):
            self._again(self._readers.get(base, {}).get(name, ()))

    def note_new(self, above: Iterable[ClassInfo]) -> None:
        """Record that another class may have instances, together with everything that it inherits."""
        for base in above:
            self._again(self._callers.pop(base, ()))
            for name in self._asked.pop(base, ()):
                self._again(self._readers.get(base, {}).get(name, ()))

    def _again(self, contexts: Iterable[Context]) -> None:
        for context in list(contexts):
            context.outdated = True
            self._interpreter.enqueue(context)
