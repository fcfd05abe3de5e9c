"""Members selected with a computed name, as by `getattr(self, name)`, and a module's submodules (`children()`).

If nothing is known about the name, it can be any name that appears in quotes in the code. A setting's values nearly
always appear somewhere in the code, in a default, a test or an annotation.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.externals import MODULE_LISTS
from dynalint.analysis.frame import Frame
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join_all
from dynalint.analysis.members import bind, member, stored
from dynalint.analysis.named_attributes import HOLE, filler, fits, name_of

# Only a pattern longer than this is selective enough by itself. `forward_{}` is, and `_{}` is not.
_SHORT = "____{}"
_CALLED = (k.Function, k.Instance, k.Class, k.Object, k.Partial, k.External)
CHILDREN = ("children", "named_children")


def named_member(frame: Frame, owner: Kind, node: ast.expr, name: Kind) -> Kind:
    """Return the join of the kinds of all members whose names match what is known about `name` at `node`."""
    pattern = name_of(node, name) or HOLE
    # Names from a loop are attribute names, as in `for name in self.states: getattr(self, name)`.
    parameters = () if frame.context is None else frame.context.params
    setting = isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id in parameters)
    found = [_selected(frame, one, pattern, spelled=pattern != HOLE or setting) for one in owner.members]
    kept = [kind for kind in found if kind is not NOTHING]
    return join_all(kept) if kept else UNKNOWN


def _selected(frame: Frame, owner: Kind, pattern: str, *, spelled: bool) -> Kind:
    if isinstance(owner, k.Module):
        defined = [name for name, one in owner.module.bindings.items() if isinstance(one, (FunctionInfo, ClassInfo))]
        quoted = _quoted([frame.module, owner.module] if spelled else ())
        return _any_called([member(frame, owner, name) for name in defined if _may_be(name, pattern, quoted)])
    if not isinstance(owner, k.Instance):
        return NOTHING
    classes = frame.interpreter.project.mro(owner.cls)
    quoted = _quoted([frame.module, *(cls.module for cls in classes)] if spelled else ())
    methods = {name for cls in classes for name in cls.methods if _may_be(name, pattern, quoted)}
    own = (frame.interpreter.project.find_method(owner.cls, name) for name in sorted(methods))
    found = [bind(frame, method, owner) for method in own if method is not None]
    frame.interpreter.attributes.initialise(owner.cls)
    names = {name for cls in classes for name in cls.attributes if name != pattern}
    held = [stored(frame, owner, pattern)]
    if pattern == HOLE:
        held += [stored(frame, owner, name) for name in sorted(names) if name in quoted]
        return _any_called([*found, *held])
    return join_all([*found, *held, *(stored(frame, owner, name) for name in sorted(names) if fits(name, pattern))])


def _quoted(modules: Collection[ModuleInfo]) -> frozenset[str]:
    """Return the names that appear in quotes in the given modules."""
    return frozenset[str]().union(*(module.quoted for module in dict.fromkeys(modules)))


def _may_be(name: str, pattern: str, quoted: Collection[str]) -> bool:
    """Return whether a computed name can be the name of this function or method."""
    if name.startswith("__"):
        return False
    if name in quoted and pattern == HOLE:
        return True
    inside = filler(name, pattern)
    return inside is not None and (inside in quoted or len(pattern) > len(_SHORT))


def _any_called(kinds: list[Kind]) -> Kind:
    """Return only the kinds that can be called, if there are any.

    A computed name that may be a function's name is hardly ever the name of a number or a tensor.
    """
    return join_all([one for kind in kinds for one in kind.members if isinstance(one, _CALLED)])


def modules_in(frame: Frame, owner: k.Instance) -> Kind:
    """Return the join of a module's child modules."""
    frame.interpreter.attributes.initialise(owner.cls)
    names = dict.fromkeys(name for cls in frame.interpreter.project.mro(owner.cls) for name in cls.attributes)
    found = [one for name in names for one in _modules_of(frame, stored(frame, owner, name))]
    return join_all(found) if found else UNKNOWN


def listed(name: str, module: Kind) -> Kind:
    """Return the result of calling `children()` or `named_children()` on a module that contains `module`."""
    element = module if name == "children" else k.sequence("tuple", [k.STR, module])
    return k.Sequence("generator", element)


def _modules_of(frame: Frame, kind: Kind) -> Iterator[Kind]:
    return (one for one in kind.members if is_module(frame, one))


def is_module(frame: Frame, kind: Kind) -> bool:
    """Return whether a value is known to be a module or a container of modules."""
    project = frame.interpreter.project
    if isinstance(kind, k.Object):
        cls = project.api.torch_class(kind.type)
        return cls is not None and cls.is_module
    if isinstance(kind, k.Sequence):
        return kind.type in MODULE_LISTS
    if isinstance(kind, k.Dictionary):  # an `nn.ModuleDict`, or a plain dict of modules
        return all(is_module(frame, one) for one in kind.value.members)
    return isinstance(kind, k.Instance) and project.is_module_class(kind.cls)
