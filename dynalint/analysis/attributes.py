"""The attributes of the project's classes, and which contexts have read each of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.kinds import NOTHING, Kind
from dynalint.analysis.passing import either_store

if TYPE_CHECKING:
    from dynalint.analysis.frame import Context, Engine, Frame


class Attributes:
    """The attributes of classes.

    `waiting` contains methods that store a requested attribute but have not been interpreted yet.
    """

    def __init__(self, interpreter: Engine) -> None:
        self.waiting: dict[FunctionInfo, None] = {}
        self._interpreter = interpreter
        self._initialised: set[ClassInfo] = set()
        self._readers: dict[tuple[ClassInfo, str], dict[Context, None]] = {}
        self._reader_lists: dict[tuple[ClassInfo, str], list[dict[Context, None]]] = {}

    def initialise(self, cls: ClassInfo) -> None:
        """Interpret a class's constructors to find its attributes.

        Other methods that store attributes are interpreted on demand.
        """
        if cls in self._initialised:
            return
        self._interpreter.note_effect("initialise", cls)
        self._initialised.add(cls)
        for one in reversed(self._interpreter.project.mro(cls)):
            self._initialised.add(one)
            constructor = one.methods.get("__init__")
            if constructor is not None and constructor not in self._interpreter.contexts:
                self._interpreter.default_context(constructor)

    def read(self, cls: ClassInfo, name: str, frame: Frame) -> Kind:
        """Return the kind of `cls.name`, or `NOTHING` if no constructor or method stores it."""
        self.initialise(cls)
        kind = self.known(cls, name)
        if frame.context is None or (cls, name) not in frame.context.reads:
            self._note_reader(cls, name, kind, frame.context)
        return kind

    def known(self, cls: ClassInfo, name: str) -> Kind:
        """Return what is currently known about the kind of `cls.name`."""
        kind = self._interpreter.project.class_attribute(cls, name)
        return self._interpreter.project.join_subclasses(cls, name) if kind is NOTHING else kind

    def _note_reader(self, cls: ClassInfo, name: str, kind: Kind, context: Context | None) -> None:
        """Rerun a context whenever the attribute changes, and interpret the methods that store the attribute."""
        lists, classes = self._reader_lists.get((cls, name)), self._interpreter.project.mro(cls)
        if lists is None:
            lists = self._reader_lists[cls, name] = [self._readers_of(one, name) for one in classes]
        if context is not None:
            context.reads[cls, name] = kind
            for readers in lists:
                readers[context] = None
            if all(name not in one.attributes for one in classes):
                self._interpreter.heirs.note_reader(cls, name, context)

    def run_writers(self, cls: ClassInfo, name: str) -> None:
        """Interpret the methods of a class that store the given attribute."""
        if name in cls.writers:
            self._interpreter.note_effect("write", cls, name)
            self._readers_of(cls, name)

    def _readers_of(self, cls: ClassInfo, name: str) -> dict[Context, None]:
        """Return the contexts that read an attribute of one class.

        The first call also interprets the methods that store the attribute. Methods that only store constants in it,
        such as one that sets a flag, do not need to be interpreted.
        """
        known = self._readers.get((cls, name))
        if known is None:
            known = self._readers[cls, name] = {}
            for method, lines in cls.writers.get(name, {}).items():
                statements = [] if method in self._interpreter.contexts else method.assignments(name, lines)
                constants = [_stored_constant(method, statement) for statement in statements]
                if None in constants:
                    self.waiting[method] = None
                    continue
                for statement, kind in zip(statements, constants, strict=True):
                    self._store(cls, name, kind or NOTHING, method, statement)
        return known

    def store(self, cls: ClassInfo, name: str, kind: Kind, frame: Frame) -> None:
        """Join `kind` into the kind of `cls.name`."""
        self._store(cls, name, kind, frame.function, frame.statement)

    def _store(
        self, cls: ClassInfo, name: str, kind: Kind, function: FunctionInfo | None, statement: ast.stmt | None
    ) -> None:
        if function is not None and statement is not None:
            stores = cls.stores.setdefault(name, [])
            if not any(known is statement for _, known in stores):
                stores.append((function, statement))
        if self._interpreter.effects is not None:
            text = None if statement is None else ast.dump(statement)
            self._interpreter.note_effect("store", cls, name, kind, text)
        old = cls.attribute(name)
        new = either_store(old, k.lasting(k.shallow(kind)))
        if new != old:
            cls.attributes[name] = new
            self._interpreter.changes += 1
            for reader in list(self._readers.get((cls, name), ())):
                reader.outdated = reader.outdated or reader.running
                self._interpreter.enqueue(reader)
            self._interpreter.heirs.note_stored(cls, name, new)


def _stored_constant(method: FunctionInfo, statement: ast.stmt | None) -> Kind | None:
    """Return the kind of the constant if `statement` only stores a constant in one attribute of `self`, or None."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not method.node.args.args:
        return None
    target, value = statement.targets[0], statement.value
    owner = target.value if isinstance(target, ast.Attribute) else None
    on_self = isinstance(owner, ast.Name) and owner.id == method.node.args.args[0].arg
    return k.constant(value.value) if on_self and isinstance(value, ast.Constant) else None
