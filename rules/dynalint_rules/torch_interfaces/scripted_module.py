"""DYN605: a module of TorchScript, which Dynamo cannot see into."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, SourceFile, Violation, k, rw

_SCRIPTING = ("torch.jit.script", "torch.jit.trace", "torch.jit.trace_module")


class ScriptedModule(Rule):
    code = "DYN605"
    name = "scripted-module"
    summary = "A call of a TorchScript module breaks the graph"
    gb = ("GB4695", "GB0008", "GB0357")
    events = (Call,)
    calls = frozenset({"torch.jit.ScriptModule.__call__", "torch.jit.ScriptModule.forward"})
    message = "Dynamo cannot trace into a TorchScript module, so the graph breaks at its call"
    help = "use the module itself instead of its script"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use the module itself, where the constructor makes it and its script in one."""
        made = _made(event, project)
        if made is not None:
            return _unscripted(*made)
        return Declined(
            "the module is scripted elsewhere; use the Python module itself, and let the compiler optimise it"
        )


def _made(event: Call, project: Project) -> tuple[SourceFile, ast.Call] | None:
    """Return the call by which the constructor makes the script that is called, of a module that it makes there."""
    called, owner = event.node.func, event.function.owner
    if isinstance(called, ast.Attribute) and called.attr == "forward":
        called = called.value
    if not (isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)) or owner is None:
        return None
    stores = [one for cls in project.mro(owner) for one in cls.stores.get(called.attr, ())]
    if len(stores) != 1 or not isinstance(stores[0][1], ast.Assign):
        return None
    method, value = stores[0][0], stores[0][1].value
    kinds = project.kinds(method)
    if not (isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.Call)):
        return None
    function, module = kinds.get(value.func, k.UNKNOWN), kinds.get(value.args[0], k.UNKNOWN)
    if not isinstance(function, k.External) or project.api.canonical(function.name) not in _SCRIPTING:
        return None
    known = isinstance(module, k.Instance) or (isinstance(module, k.Object) and module.type.startswith("torch.nn."))
    return (method.file, value) if known else None


def _unscripted(file: SourceFile, made: ast.Call) -> Rewrite:
    """Keep the module that a script is made of, and make no script."""
    edits = rw.written(file, (made, rw.kept(file, made.args[0])))
    conditions = ["no code needs the script itself, for example to save it or show its code"]
    if len(made.args) > 1:
        conditions.append("the module does the same for all inputs as for those that it was traced with")
    return Rewrite("Use the module itself", "unsafe", edits, tuple(conditions), shown=True)
