"""Public functions and classes, which code outside the project may call with other arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo

# Modules and names that only the project itself uses.
_OWN = re.compile(r"(^|\.)(_(?!_)\w*|tests?|test_\w+|\w+_test|testing|examples?|benchmarks?|scripts?|conftest)(\.|$)")


def is_public(function: FunctionInfo) -> bool:
    """Return whether code outside the project may call a function.

    This depends on the names of the function, its class and its modules.
    """
    known = function.known_public
    if known is None:
        own_name = function.name if function.name != "__init__" else ""
        known = function.parent is None and _may_be_named(own_name, function.owner, function.module)
        function.known_public = known
    return known


def is_public_class(cls: ClassInfo) -> bool:
    """Return whether code outside the project may instantiate or subclass a class."""
    known = cls.known_public
    if known is None:
        known = cls.known_public = _may_be_named("", cls, cls.module)
    return known


def _may_be_named(name: str, cls: ClassInfo | None, module: ModuleInfo) -> bool:
    names = (name, *(cls.qualname.split(".") if cls is not None else ()))
    return is_imported_by_others(module) and not any(one.startswith("_") for one in names)


def is_imported_by_others(module: ModuleInfo) -> bool:
    """Return whether a module is part of a package, rather than a script that only the project runs."""
    known = module.known_public
    if known is None:
        known = module.known_public = (module.package or "." in module.name) and _OWN.search(module.name) is None
    return known
