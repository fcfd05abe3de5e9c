"""DYN601: a recurrent layer, which Dynamo refuses as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, Read
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.order import always_before

_LAYERS = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNNBase")


class RecurrentLayer(Rule):
    """Use an `nn.RNN`, `nn.LSTM` or `nn.GRU` in code that is compiled.

    ## What it flags
    The first place of a function that calls such a layer or asks it for anything (`self.lstm.flatten_parameters()`,
    `self.lstm.hidden_size`); in the methods of a class that inherits from one, the first that `self` is asked for.
    Not flagged: the cells (`nn.LSTMCell`, `nn.GRUCell`), which are traced like other layers, and what comes after in
    the same function, which is not compiled any more.

    ## Why
    These layers keep their weights in one flat block of memory that a traced program could not keep up. Dynamo does
    not look into them, and where it meets one the rest of the function runs without being compiled.

    ## Example
    ```python
    def forward(self, x):
        out, _ = self.lstm(self.embed(x))
        return self.head(out)
    ```

    Use instead:
    ```python
    self.embed.compile()
    self.head.compile()
    ```

    ## How it is rewritten
    It is not. Compile what stands before and after the layer by itself, or replace the layer by one that is
    traced: a cell in a loop over the steps (one graph of the whole loop), a convolution, attention.

    `torch._dynamo.config.allow_rnn = True` makes Dynamo trace the layer all the same; it worked with the eager backend
    and failed with AOTAutograd for an LSTM.

    ## When the rewrite is not exact
    A loop over a cell computes the same in another order and unrolls: one graph for each length.

    ## How Dynamo words it
    GB0014: `Attempted to wrap RNN, GRU, or LSTM`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0014.html
    """

    code = "DYN601"
    name = "recurrent-layer"
    summary = "a recurrent layer of torch ends the compiled part of the function"
    gb = ("GB0014",)
    gives_up = True
    events = (Call, Read)
    calls = frozenset(f"{name}.*" for name in _LAYERS)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the first use of such a layer in its function."""
        if not isinstance(event, Call | Read):
            return
        used = _owner(event)
        parents, kinds = project.parents(event.function), project.kinds(event.function)
        for node, kind in kinds.items():
            if _is_used(node, parents) and _layers(kind, project) and always_before(node, used, parents):
                return
        name = (event.callee if isinstance(event, Call) else event.name).rpartition(".")[0]
        among = _layers(kinds.get(used, k.UNKNOWN), project)
        if name not in among or name == among[0]:
            shown = " or ".join(f"`{one.removeprefix('torch.')}`" for one in among or [name])
            yield Violation(
                event.node,
                f"Dynamo does not trace {shown}, and from here on the function is not compiled",
                help="compile the parts before and after the layer by themselves, or use a cell in a loop",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: no operation that is traced computes the same."""
        return Declined(
            "no layer that Dynamo traces computes the same in the same order; compile the parts before and after it by "
            "themselves, or write the recurrence as a loop over a cell"
        )

    examples = (
        Example(
            name="lstm",
            code=forward(
                """
                y = self.fc(x)
                out, _ = self.lstm(y)  # DYN601
                return out
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.lstm = nn.LSTM(8, 8)
                """,
            ),
            declined="compile the parts before and after",
        ),
        Example(
            name="first-use-only",
            code=forward(
                """
                self.gru.flatten_parameters()  # DYN601
                out, state = self.gru(self.fc(x))
                return out * self.gru.hidden_size
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.gru = nn.GRU(8, 8)
                """,
            ),
        ),
        Example(
            name="in-a-list",
            code=forward(
                """
                for layer in self.layers:
                    x, _ = layer(x)  # DYN601
                return self.fc(x)
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.layers = nn.ModuleList([nn.RNN(8, 8), nn.RNN(8, 8)])
                """,
            ),
        ),
        Example(
            name="in-a-sequential",
            code=forward(
                "return self.layers(x)[0]  # DYN601",
                init="self.layers = nn.Sequential(nn.Linear(8, 8), nn.GRU(8, 8))",
            ),
        ),
        Example(
            name="one-or-the-other",
            code=forward(
                "return self.layer(self.fc(x))[0]  # DYN601",
                init="""
                self.fc = nn.Linear(8, 8)
                layer = nn.LSTM if torch.get_num_threads() > 0 else nn.RNN
                self.layer = layer(8, 8)
                """,
            ),
        ),
        Example(
            name="by-name",
            code=forward(
                "return self.layer(self.fc(x))[0]  # DYN601",
                init="""
                self.fc = nn.Linear(8, 8)
                self.layer = getattr(nn, "gru".upper())(8, 8, bidirectional=True)
                """,
            ),
        ),
        Example(
            name="own-subclass",
            code=forward(
                "return self.layer(self.fc(x))[0]  # DYN601",
                head="class Recurrent(nn.LSTM):\n    pass",
                init="""
                self.fc = nn.Linear(8, 8)
                self.layer = Recurrent(8, 8)
                """,
            ),
        ),
        Example(
            name="method-of-a-subclass",
            code=forward(
                """
                h = self.fc(x)
                return self.layer(h)[0]  # DYN601
                """,
                head="""
                class Recurrent(nn.LSTM):
                    def forward(self, x):
                        scale = x.shape[-1]
                        x = self.scaled(x, scale)  # DYN601
                        return super().forward(x)

                    def scaled(self, x, scale):
                        return x / scale
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.layer = Recurrent(8, 8)
                """,
            ),
        ),
        Example(
            name="cell",
            code=forward(
                """
                state = None
                for step in x.unbind(0):
                    state = self.cell(step, state)
                return state[0]
                """,
                init="self.cell = nn.LSTMCell(8, 8)",
            ),
        ),
        Example(
            name="convolution",
            code=forward("return self.mix(x)", init="self.mix = nn.Conv1d(4, 4, 3, padding=1)"),
        ),
    )


def _is_used(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether an expression is called, or asked for an attribute, and not merely passed on."""
    parent = parents.get(node)
    return (isinstance(parent, ast.Attribute) and parent.value is node) or (
        isinstance(parent, ast.Call) and parent.func is node
    )


def _owner(event: Call | Read) -> ast.expr:
    """Return the expression that is the layer: of `self.lstm(x)` and `self.lstm.flatten_parameters()` `self.lstm`."""
    if isinstance(event, Read):
        return event.node.value
    function = event.node.func
    is_call = event.callee.endswith(".__call__")
    return function.value if isinstance(function, ast.Attribute) and not is_call else function


def _layers(kind: k.Kind, project: Project) -> list[str]:
    """Return the recurrent layers that a value may be, or be a subclass of."""
    names: set[str] = set()
    for one in kind.members:
        if isinstance(one, k.Object):
            names.add(one.type)
        elif isinstance(one, k.Instance):
            names.update(project.lineage(one.cls)[1])
    return sorted(names & set(_LAYERS))
