"""DYN610: a function of torch that no graph can hold."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dynalint.analysis import torch_api
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation, all_rules
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise
from dynalint_rules._shared.hoisted import asked_once, hoisted
from dynalint_rules._shared.scope import Refusal, Scope

# What the derived data has no sample call of; each was seen to end the graph under torch 2.13.
_WITHOUT_SAMPLE = {
    "torch.Tensor.apply_": "GB0055",
    "torch.Tensor.map_": "GB0055",
    "torch.Tensor.is_set_to": "GB0208",
    "torch.backends.mha.set_fastpath_enabled": "GB0007",
    "torch.backends.mkldnn.is_available": "GB0007",
    "torch.can_cast": "GB0208",
    "torch.frombuffer": "GB0059",
    "torch.jit.fork": "GB0007",
    "torch.jit.wait": "GB0007",
    "torch.typename": "GB0007",
}
_UNTRACED = {
    name.replace("torch.Tensor.", "Tensor."): gb for name, gb in {**torch_api.untraced(), **_WITHOUT_SAMPLE}.items()
}
# What the installed torch was built with, and what it finds on the machine.
_BUILT = frozenset(
    "torch.backends.cuda.is_built torch.backends.mkl.is_available torch.backends.mkldnn.is_available "
    "torch.backends.mps.is_built torch.backends.openmp.is_available torch.is_vulkan_available".split()
)
_FOUND = frozenset(
    "torch.accelerator.device_count torch.backends.cpu.get_cpu_capability torch.backends.mps.is_available "
    "torch.cpu.device_count torch.cpu.is_available torch.cuda.is_bf16_supported torch.get_default_device "
    "torch.get_float32_matmul_precision torch.get_num_interop_threads torch.mps.device_count torch.mps.is_available "
    "torch.xpu.device_count torch.xpu.is_bf16_supported".split()
)


class UntracedTorch(Rule):
    """Call a function of torch, or a method of tensors, that Dynamo does not trace whatever it is given.

    ## What it flags
    Functions that ask for what only a real tensor or a real machine has (`t.storage_offset()`, `t.is_shared()`,
    `t.is_inference()`, `torch.result_type`, `torch.backends.mkl.is_available()`, `torch.get_default_device()`), some
    that change a setting (`torch.backends.mha.set_fastpath_enabled`), and a few operations (`t.random_()`,
    `t.apply_()`, `t.to_mkldnn()`). Not flagged: the many queries that Dynamo answers itself (`t.dtype`,
    `t.is_contiguous()`, `torch.is_tensor`, `torch.cuda.is_available()`), and what another rule stands for.

    ## Why
    A graph holds operations that take and give tensors. What gives something else ends the graph, unless Dynamo
    knows the answer while it traces.

    ## Example
    ```python
    def forward(self, x):
        return x * torch.backends.mkl.is_available()
    ```

    Use instead:
    ```python
    def __init__(self):
        super().__init__()
        self.factor = int(torch.backends.mkl.is_available())
    ```

    ## How it is rewritten
    What torch was built with (`torch.backends.mkl.is_available()`) and what it finds on the machine
    (`torch.mps.device_count()`) is asked for once, at the top of the module. The others are declined: what does not
    change while the model runs can be asked for in `__init__`.

    ## When the rewrite is not exact
    What torch was built with never changes, so that is `safe`. Other answers may, so to ask once is `unsafe`.

    ## How Dynamo words it
    GB0208: `torch.* op returned non-Tensor`, GB0007: `Attempted to call function marked as skipped`, and others for
    single methods. Which functions these are was found by compiling a call of each with torch 2.13.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0208.html
    """

    code = "DYN610"
    name = "untraced-torch"
    summary = "a function of torch that Dynamo does not trace ends the graph"
    gb = tuple(sorted({*_UNTRACED.values(), "GB0008"}))
    events = (Call,)
    calls = frozenset(_UNTRACED)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call, unless another rule stands for the function."""
        if not isinstance(event, Call) or leads_to_raise(event, project):
            return
        if event.callee not in _claimed() and event.callee in _UNTRACED:
            name = event.callee.replace("Tensor.", "t.")
            yield Violation(
                event.node,
                f"Dynamo does not trace `{name}()`, so the graph ends there",
                help="ask for it before, in `__init__` if it does not change",
                gb=(_UNTRACED[event.callee],),
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Ask for what does not change when the module is imported; decline where that is for a person to say."""
        if isinstance(event, Call) and event.callee in _BUILT | _FOUND:
            try:
                scope = Scope.of(event, project)
                return (
                    hoisted(scope, event.node, (), "safe") if event.callee in _BUILT else asked_once(scope, event.node)
                )
            except Refusal as refusal:
                return Declined(str(refusal))
        return Declined(
            "whether its answer changes is not to be seen from here; ask once, in `__init__`, if it does not"
        )

    examples = (
        Example(
            name="machine",
            code=forward("""
                h = self.fc(x)
                return h * torch.backends.mkl.is_available()  # DYN610
            """),
            fixed="""
            import torch
            from torch import nn


            _IS_AVAILABLE = torch.backends.mkl.is_available()


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)

                def forward(self, x: torch.Tensor):
                    h = self.fc(x)
                    return h * _IS_AVAILABLE
            """,
        ),
        Example(
            name="memory",
            code=forward("""
                h = self.fc(x)
                return h + h.storage_offset()  # DYN610
            """),
            declined="ask once",
        ),
        Example(
            name="mode",
            code=forward("""
                h = self.fc(x)
                if torch.is_inference_mode_enabled() or h.is_inference():  # DYN610
                    h = h * 2
                return h
            """),
        ),
        Example(
            name="shared",
            code=forward("""
                h = self.fc(x)
                return h.share_memory_() * 2  # DYN610
            """),
        ),
        Example(
            name="resized",
            code=forward("""
                h = self.fc(x)
                return h.resize(8, 4) * 2
            """),
        ),
        Example(
            name="types",
            code=forward("""
                h = self.fc(x)
                return h * torch.is_same_size(h, x)  # DYN610
            """),
        ),
        Example(
            name="text",
            code=forward("""
                h = self.fc(x)
                kind = torch.typename(h)  # DYN610
                return h * len(kind)
            """),
        ),
        Example(
            name="drawn",
            code=forward("""
                h = self.fc(x)
                noise = torch.zeros(8).random_(0, 10)  # DYN610
                return h, noise
            """),
        ),
        Example(
            name="answered-by-dynamo",
            code=forward("""
                h = self.fc(x)
                if torch.is_tensor(h) and h.is_contiguous() and not torch.cuda.is_available():
                    h = h.to(torch.promote_types(h.dtype, torch.float32))
                return h * torch.finfo(h.dtype).eps + h.element_size() + h.dim()
            """),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                "return self.fc(x) * self.threads",
                init="""
                self.fc = nn.Linear(8, 8)
                self.threads = torch.get_num_threads()
                """,
            ),
        ),
    )


@cache
def _claimed() -> frozenset[str]:
    """Return the names that rules of their own stand for."""
    others = (rule.calls for rule in all_rules() if not isinstance(rule, UntracedTorch))
    return frozenset[str]().union(*others)
