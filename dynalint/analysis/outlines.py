"""The imports, definitions and base classes in a file, which are read from its text without parsing it.

Parsing would take about thirty times as long, and most of a project's files turn out to be unrelated to a given file.
Text that only looks like code, such as an example in a docstring, counts as code. As a result, a file may be included
unnecessarily, but no file is missed.
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
    """A name bound by an import statement.

    `module` is an absolute name. `attribute` is None if the name is bound to the module itself.
    """

    bound: str
    module: str
    attribute: str | None = None


@dataclass(eq=False)
class Outline:
    """The module `name` in the file at `path`, whose content is `text`. `package` says whether it is a package."""

    path: Path
    name: str
    package: bool
    text: str = field(repr=False)

    @cached_property
    def imports(self) -> tuple[Imported, ...]:
        """The names bound by import statements anywhere in the file. A star import binds `*`."""
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
        """The names bound at the top level. A name that the file defines itself is mapped to None."""
        found: dict[str, Imported | None] = {one.bound: one for one in self.imports if one.bound != "*"}
        found.update(dict.fromkeys((match[1] or match[2] for match in _DEFINITION.finditer(self.text)), None))
        return found

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """The modules that the file star-imports."""
        return tuple(one.module for one in self.imports if one.attribute == "*")

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The words in the code, without import statements."""
        return frozenset(re.findall(r"\w+", _COMMENT.sub("", _STRING.sub("", _IMPORT.sub("", self.text)))))

    @property
    def bearing(self) -> tuple[object, ...]:
        """All that decides which other files affect this one, and which it affects."""
        used = frozenset(one for one in self.imports if one.bound in self.mentioned)
        return self.imports, self.bindings, self.bases, self.plain, used

    @cached_property
    def bases(self) -> frozenset[str]:
        """The dotted names of the base classes in class definitions."""
        return frozenset(name for match in _BASES.finditer(self.text) for name in re.findall(r"[\w.]+", match[1]))

    @cached_property
    def plain(self) -> frozenset[str]:
        """Names that are only assigned numbers or strings, such as a version."""
        assigned = [(match[1], match[2] is not None) for match in _ASSIGNED.finditer(self.text)]
        return frozenset(name for name, _ in assigned) - {name for name, is_plain in assigned if not is_plain}
