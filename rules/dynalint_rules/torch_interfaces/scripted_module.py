"""DYN605: a TorchScript module, which Dynamo cannot trace."""

from __future__ import annotations

from dynalint.rulekit import Call, Rule


class ScriptedModule(Rule):
    code = "DYN605"
    name = "scripted-module"
    summary = "Calling a TorchScript module breaks the graph"
    gb = ("GB4695", "GB0008", "GB0357")
    events = (Call,)
    calls = frozenset({"torch.jit.ScriptModule.__call__", "torch.jit.ScriptModule.forward"})
    message = "Dynamo cannot trace into a TorchScript module, so calling it breaks the graph"
    help = "use the Python module instead of the scripted one"
    refusal = "use the Python module itself, and let the compiler optimise it"
