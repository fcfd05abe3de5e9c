"""DYN610: torch functions that Dynamo never traces."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from dynalint.rulekit import (
    Call,
    Declined,
    Project,
    Rewrite,
    Rule,
    Violation,
    all_rules,
    k,
    leads_to_raise,
    rw,
    torch_api,
    walk_function,
)
from dynalint_rules._code.scope import Scope

# Functions without a sample call in the derived data. All of them were observed to break the graph with torch 2.13.
_WITHOUT_SAMPLE = {
    "torch.Tensor.apply_": "GB0055",
    "torch.Tensor.map_": "GB0055",
    "torch.Tensor.is_set_to": "GB0208",
    "torch.backends.mha.set_fastpath_enabled": "GB0007",
    "torch.backends.mkldnn.is_available": "GB0007",
    "torch.can_cast": "GB0208",
    "torch.compiler.cudagraph_mark_step_begin": "GB0007",
    "torch.distributions.kl_divergence": "GB0059",
    "torch.frombuffer": "GB0059",
    "torch.jit.fork": "GB0007",
    "torch.jit.isinstance": "GB0007",
    "torch.jit.script": "GB0007",
    "torch.jit.trace": "GB0098",
    "torch.jit.wait": "GB0007",
    "torch.typename": "GB0007",
    "torch.utils.checkpoint.checkpoint_sequential": "GB0008",
}
_UNTRACED = {
    name.replace("torch.Tensor.", "Tensor."): gb for name, gb in {**torch_api.untraced(), **_WITHOUT_SAMPLE}.items()
}
_UNTRACED.update(dict.fromkeys(("dtype.to_complex", "dtype.to_real"), "GB0156"))
_MAKING = "torch.Tensor._make_wrapper_subclass"  # this is a class function, and the others are methods
_UNTRACED[_MAKING] = "GB0007"

# Dynamo skips these classes. With torch 2.13, each was created, called, and asked for its parameters.
_MIN_MAX = "MinMax MovingAverageMinMax PerChannelMinMax MovingAveragePerChannelMinMax Histogram FixedQParams"
_OBSERVERS = [
    *(f"{name}Observer" for name in f"{_MIN_MAX} Placeholder Recording Noop ReuseInput".split()),
    *("FakeQuantize", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize"),
]
_OBSERVING = frozenset(
    f"torch.ao.quantization.{name}.{method}"
    for name in (*_OBSERVERS, "ObserverBase", "FakeQuantizeBase")
    for method in ("__call__", "forward", "calculate_qparams")
)
_UNTRACED.update(dict.fromkeys(_OBSERVING, "GB0008"))
for _module in ("", "observer.", "fake_quantize."):
    for _owner in ("torch.ao.quantization.", "torch.quantization."):
        _UNTRACED.update((f"{_owner}{_module}{name}", "GB0008") for name in _OBSERVERS)

# Traced from torch 2.14 on.
_TRACED_LATER = frozenset(
    {"Tensor.to_mkldnn", "torch.backends.mps.is_available", "torch.backends.mps.is_built"}
    | {"torch.mps.is_available", "torch.mtia.is_available"}
)
# Distributions for which torch has several formulas. Dynamo cannot compare these to find the most specific one.
_SEVERAL = frozenset(
    f"torch.distributions.{name}"
    for name in "Bernoulli Beta Chi2 ContinuousBernoulli Dirichlet Exponential Gamma Gumbel HalfNormal Normal Pareto "
    "Poisson".split()
)
_PLAIN_TYPES = frozenset({*(f"builtins.{name}" for name in ("bool", "float", "int", "str")), "torch.Tensor"})
_DIVERGENCE = "torch.distributions.kl_divergence"
_OUTSIDE = "do it outside the compiled code, and pass in the tensor"
# Functions that do more than return information, each with the alternative to recommend.
_DOES = {
    "Tensor.apply_": "use operations on whole tensors",
    "Tensor.map_": "use operations on whole tensors",
    "Tensor.random_": "sample with `torch.randint`",
    "Tensor.share_memory_": "share memory outside the compiled code",
    _MAKING: "create the tensor outside the compiled code, and pass it in",
    _DIVERGENCE: "call it for two such distributions before you compile, or write out the formula",
    "torch.jit.isinstance": "use `isinstance`, and test the items as well",
    "torch.utils.checkpoint.checkpoint_sequential": "use `torch.utils.checkpoint.checkpoint` for each segment",
    "torch.backends.mha.set_fastpath_enabled": "set it outside the compiled code",
    "torch.compiler.cudagraph_mark_step_begin": "call it before each call of the compiled function",
    "torch.nn.init.normal": "use `torch.nn.init.normal_`",
    "torch.nn.init.uniform": "use `torch.nn.init.uniform_`",
    **dict.fromkeys(("torch.jit.script", "torch.jit.trace"), "create the script outside the compiled code"),
    **dict.fromkeys(("Tensor.to_mkldnn", "torch.from_dlpack", "torch.frombuffer"), _OUTSIDE),
}


class UntracedTorch(Rule):
    code = "DYN610"
    name = "untraced-torch"
    summary = "A torch function that Dynamo does not trace breaks the graph"
    gb = tuple(sorted({*_UNTRACED.values(), "GB0008", "GB4197"}))
    events = (Call,)
    calls = frozenset(_UNTRACED)

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call, unless another rule covers the function."""
        if leads_to_raise(event, project):
            return
        if event.callee in _OBSERVING:
            if isinstance(event.receiver, k.Object):  # a class of the project may override the method
                yield _observing(event)
        elif event.callee == _DIVERGENCE:
            if _is_first_search(event, project):
                yield Violation(
                    event.node,
                    "`kl_divergence()` searches for the formula when it is first called for these two distributions, "
                    "which breaks the graph",
                    help=_DOES[_DIVERGENCE],
                    gb=(_UNTRACED[_DIVERGENCE],),
                )
        elif event.callee not in _claimed() and event.callee in _UNTRACED:
            name = event.callee.replace("Tensor.", "t.") if event.callee != _MAKING else event.callee
            yield Violation(
                event.node,
                f"Dynamo does not trace `{name}()`, so the graph breaks here",
                help=_DOES.get(event.callee, "query it before the call, or in `__init__` if it does not change"),
                gb=(_UNTRACED[event.callee],),
                torch="<2.14" if event.callee in _TRACED_LATER else "",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined:
        """Read the default device from a new tensor, and test plain types with `isinstance`."""
        scope = Scope.of(event, project)
        if event.callee == "torch.jit.isinstance" and _is_of_plain_type(scope, event.node):
            edits = rw.written(scope.file, (event.node.func, rw.name("isinstance")))
            return Rewrite("Use `isinstance`", "safe", edits)
        if event.callee == "torch.get_default_device":
            edits = rw.written(scope.file, (event.node, f"{scope.torch}.empty(0).device"))
            return Rewrite("Use the device of an empty tensor", "safe", edits, imports=scope.imports)
        if event.callee in _OBSERVING or event.callee.endswith(("Observer", "FakeQuantize")):
            return Declined("the observer has to see each tensor, which compiled code cannot do without a graph break")
        if event.callee == _DIVERGENCE:
            return Declined(f"the formula depends on the distributions; {_DOES[_DIVERGENCE]}")
        if event.callee in _DOES:
            return Declined(f"the function does more than return information; {_DOES[event.callee]}")
        if event.callee.startswith(("Tensor.", "dtype.")):
            return Declined("the result depends on the tensor; query it outside the compiled code, and pass it in")
        return Declined(
            "dynalint cannot tell from the code whether the result changes; if it is constant, query it once in "
            "`__init__`"
        )


def _is_first_search(event: Call, project: Project) -> bool:
    """Return whether a function's call is its first for a type of distribution with several formulas."""
    kinds = project.kinds(event.function)

    def types(call: ast.Call) -> list[str]:
        return [getattr(kinds.get(one), "type", "") for one in call.args]

    calls = [one for one in walk_function(event.function.node) if isinstance(one, ast.Call)]
    same = [
        one for one in calls if kinds.get(one.func) == kinds.get(event.node.func) and types(one) == types(event.node)
    ]
    first, *others = types(event.node) or [""]
    return others == [first] and first in _SEVERAL and all(event.node.lineno <= one.lineno for one in same)


def _is_of_plain_type(scope: Scope, call: ast.Call) -> bool:
    """Return whether a call tests for a type without parameters, for which TorchScript has no test of its own."""
    kind = scope.kind(call.args[1]) if len(call.args) == 2 else k.UNKNOWN
    taken = "isinstance" in scope.function.module.bindings or "isinstance" in scope.function.locals
    return isinstance(kind, k.External) and kind.name in _PLAIN_TYPES and not taken


def _observing(event: Call) -> Violation:
    owner, _, method = event.callee.rpartition(".")
    name = owner if method in ("__call__", "forward") else event.callee
    return Violation(
        event.node,
        f"Dynamo does not trace `{name}`, so the graph breaks here",
        help="calibrate before you compile, and compile the converted model",
        gb=("GB0008",),
    )


@cache
def _claimed() -> frozenset[str]:
    """Return the names of functions that other rules cover."""
    others = (rule.calls for rule in all_rules() if not isinstance(rule, UntracedTorch))
    return frozenset[str]().union(*others)
