"""The imports, definitions and base classes of a file, read from its text without parsing.

Parsing takes some thirty times as long, and most files of a project turn out to be unrelated to a given file. Text that
only looks like code, as in a docstring, counts as code. This may include a file unnecessarily, but never misses one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dynalint.analysis.build import absolute_name
from dynalint.analysis.records import record

_IMPORT = re.compile(
    r"^[ \t]*(?:from(?:[ \t]+|(?=\.))(\.*[ \t]*[\w.]*)[ \t]*import[ \t]*(\((?:[^)#]|#.*)*\)|(?:[^\\\n#;]|\\\r?\n)+)"
    r"|import[ \t]+((?:[^\\\n#;]|\\\r?\n)+))",
    re.MULTILINE,
)
_NAME = re.compile(r"([\w.]+)(?:\s+as\s+(\w+))?|\*")
_COMMENT = re.compile(r"#.*")
_DEFINITION = re.compile(r"^(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
_BASES = re.compile(r"^[ \t]*class[ \t]+\w+[ \t]*\(((?:[^()]|\([^()]*\))*)\)[ \t]*:", re.MULTILINE)
_STRING = re.compile(r"\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n]*\"|'[^'\n]*'")
_ASSIGNED = re.compile(
    r"^(\w+)\b(?:[ \t]*(?::[^=\n]*)?=[ \t]*(\"[^\"\n]*\"|'[^'\n]*'|[\d.]+)[ \t]*(?:#.*)?$|.*=)", re.MULTILINE
)


@record(frozen=True, slots=True)
class Imported:
    """A name that an import statement binds: `module` is absolute, `attribute` None for the module itself."""

    bound: str
    module: str
    attribute: str | None = None


@dataclass(eq=False)
class Outline:
    """The module `name` in the file at `path` with the content `text`; it may be a package."""

    path: Path
    name: str
    package: bool
    text: str = field(repr=False)

    @cached_property
    def imports(self) -> tuple[Imported, ...]:
        """The bindings of its import statements, wherever they are; a star import binds `*`."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[Imported]:
        for match in _IMPORT.finditer(self.text):
            source, named, modules = match.groups()
            listed = named or modules
            names = _NAME.finditer(_COMMENT.sub("", listed) if "#" in listed else listed)
            if source is None:
                for one in names:
                    name, alias = one.groups()
                    yield Imported(alias or name or "", name or "")
                continue
            dots = len(source) - len(source.lstrip("."))
            module = absolute_name(self.name, self.package, dots, source[dots:].strip())
            for one in names:
                name, alias = one.groups()
                yield Imported(alias or name or "*", module, name or "*")

    @cached_property
    def bindings(self) -> dict[str, Imported | None]:
        """The names that its top level binds; None for a name that it defines itself."""
        found: dict[str, Imported | None] = {one.bound: one for one in self.imports if one.bound != "*"}
        found.update(dict.fromkeys((match[1] or match[2] for match in _DEFINITION.finditer(self.text)), None))
        return found

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """The modules that it star-imports."""
        return tuple(one.module for one in self.imports if one.attribute == "*")

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The words in its code, without its import statements."""
        return frozenset(re.findall(r"\w+", _COMMENT.sub("", _STRING.sub("", _IMPORT.sub("", self.text)))))

    @cached_property
    def bases(self) -> frozenset[str]:
        """The dotted names of the base classes of its classes."""
        return frozenset(name for match in _BASES.finditer(self.text) for name in re.findall(r"[\w.]+", match[1]))

    @cached_property
    def plain(self) -> frozenset[str]:
        """The names that are only assigned numbers or text, such as a version."""
        assigned = [(match[1], match[2] is not None) for match in _ASSIGNED.finditer(self.text)]
        return frozenset(name for name, _ in assigned) - {name for name, is_plain in assigned if not is_plain}
