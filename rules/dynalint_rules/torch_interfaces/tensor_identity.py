"""DYN609: the memory, the history or the version of a tensor, asked for by Python code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from contextlib import suppress

from dynalint.analysis.events import Call, Event, Read
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.memory import makes_tensor
from dynalint_rules._shared.scope import Refusal, Scope


class TensorIdentity(Rule):
    """Ask a tensor where its memory is or how it came about, in code that is compiled.

    ## What it flags
    `a.data_ptr() == b.data_ptr()`, and any comparison of the address of a tensor with something else, such as
    `a.data_ptr() == 0`; a test of `t._version`; and `t.grad_fn` of a tensor that the function computes. Not flagged:
    `t.requires_grad`, `t.is_leaf` (see DYN621), `t.grad`, `t is u`, an address compared with itself, and `t.data_ptr()`
    that is only handed on, which are traced.

    ## Why
    While a graph is traced its tensors have no memory, no count of changes and no nodes of a backward graph, so there
    is no answer. A comparison of addresses and a branch on the count end the graph, and `grad_fn` costs the whole
    function.

    ## Example
    ```python
    def forward(self, query, key):
        same = query.data_ptr() == key.data_ptr()
        if out.grad_fn is not None:
            ...
    ```

    Use instead:
    ```python
    def forward(self, query, key):
        same = query is key
        if out.requires_grad:
            ...
    ```

    ## How it is rewritten
    `a.data_ptr() == b.data_ptr()` becomes `a is b`, and `!=` becomes `is not`, where all sides are plain names.
    `t.grad_fn is not None` becomes `t.requires_grad` where an operation made `t`. Anything else is left: a leaf that
    asks for gradients has no `grad_fn`.

    ## When the rewrite is not exact
    Two views of the same memory have one address and are two objects, and all tensors without elements may have the
    same address, so the rewrite into `is` is only applied with `--unsafe-fixes`. That into `requires_grad` is
    `conditional`: nothing must ask for gradients of the result of an operation that has none.

    ## How Dynamo words it
    GB5976: `Data pointer comparison`, GB0104: `Tensor with grad_fn()`, GB0170: `Data-dependent branching`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.data_ptr.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb5976.html
    """

    code = "DYN609"
    name = "tensor-identity"
    summary = "asking for the address or the history of a tensor ends the graph"
    gb = ("GB5976", "GB0104", "GB0023", "GB0170")
    events = (Call, Read)
    calls = frozenset({"Tensor.data_ptr", "Tensor.grad_fn", "Tensor._version"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag a comparison of addresses once, and what reads the history of a tensor that is no argument."""
        if leads_to_raise(event, project):
            return
        if isinstance(event, Read) and event.name == "Tensor._version":
            if _decides(event.node, project.parents(event.function)):
                yield Violation(
                    event.node,
                    "how often a tensor was changed is not known while it is traced, so the graph ends at this test",
                    help="test it outside of the compiled code",
                )
        elif isinstance(event, Read) and _is_computed(event):
            yield Violation(
                event.node,
                "`grad_fn` of a tensor does not exist while a graph is traced, so the function is not compiled",
                help="ask for `requires_grad`",
            )
        elif isinstance(event, Call):
            parent = project.parents(event.function).get(event.node)
            if isinstance(parent, ast.Compare) and _addresses(parent)[0] is event.node and _compares_two(parent):
                yield Violation(
                    parent,
                    "tensors have no addresses while a graph is traced, so the graph ends at this comparison",
                    help="compare the tensors with `is`",
                    # An address that is compared with a number stays a number for torch 2.11.
                    torch="" if len(_addresses(parent)) > 1 else ">=2.13",
                )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare the tensors themselves; decline where there is no such form, or what comes near differs silently."""
        if isinstance(event, Read) and event.name == "Tensor._version":
            return Declined("no tensor operation counts changes; test `_version` outside of the compiled code")
        if isinstance(event, Read):
            with suppress(Refusal):
                return _asks_for_gradients(Scope.of(event, project), event)
            return Declined(
                "a leaf that asks for gradients has no `grad_fn`; use `requires_grad` if there is none here"
            )
        if isinstance(violation.node, ast.Compare):
            rewrite = _same_object(event, violation.node)
            if rewrite is not None:
                return rewrite
        return Declined("two views of the same memory are two objects; use `is` if no views are meant")

    examples = (
        Example(
            name="addresses",
            code=forward(
                """
                h = self.fc(x)
                if h.data_ptr() == y.data_ptr():  # DYN609
                    h = h * 2
                return h
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.randn(4, 8))]",
            fixed=forward(
                """
                h = self.fc(x)
                if h is y:
                    h = h * 2
                return h
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
        ),
        Example(
            name="three-addresses",
            code=forward(
                """
                same = x.data_ptr() == y.data_ptr() == z.data_ptr()  # DYN609
                return self.fc(x + y + z) if same else self.fc(x)
                """,
                arguments="x: torch.Tensor, y: torch.Tensor, z: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.randn(4, 8), torch.randn(4, 8))]",
            fixed=forward(
                """
                same = x is y is z
                return self.fc(x + y + z) if same else self.fc(x)
                """,
                arguments="x: torch.Tensor, y: torch.Tensor, z: torch.Tensor",
            ),
        ),
        Example(
            name="address-of-a-part",
            code=forward(
                """
                h = self.fc(x)
                return h * 2 if x[0].data_ptr() != y.data_ptr() else h  # DYN609
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.randn(4, 8))]",
            declined="use `is`",
        ),
        Example(
            name="address-and-number",
            torch=">=2.13",
            code=forward("""
                h = self.fc(x)
                if 0 == x.data_ptr():  # DYN609
                    return h
                return h * 2
            """),
            declined="use `is`",
        ),
        Example(
            name="address-among-addresses",
            code=forward(
                """
                h = self.fc(x)
                return h * 2 if x.data_ptr() in self.seen else h
                """,
                init="self.fc = nn.Linear(8, 8)\nself.seen = {1, 2}",
            ),
        ),
        Example(
            name="history",
            code=forward("""
                h = self.fc(x)
                if h.grad_fn is not None:  # DYN609
                    h = h * 2
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                if h.requires_grad:
                    h = h * 2
                return h
            """),
        ),
        Example(
            name="no-history",
            code=forward("""
                h = self.fc(x)
                return h * 2 if h.grad_fn is None and self.training else h  # DYN609
            """),
            fixed=forward("""
                h = self.fc(x)
                return h * 2 if not h.requires_grad and self.training else h
            """),
        ),
        Example(
            name="history-of-what-may-be-a-leaf",
            code=forward("""
                h = self.fc(x)
                y = h.contiguous()
                if y.grad_fn is not None:  # DYN609
                    h = h * 2
                return h
            """),
            declined="use `requires_grad`",
        ),
        Example(
            name="version",
            code=forward("""
                h = self.fc(x)
                if h.is_leaf or h._version == 0:  # DYN609
                    h = h * 2
                return h
            """),
            declined="counts changes",
        ),
        Example(
            name="version-handed-on",
            code=forward("""
                h = self.fc(x)
                return h * 2, h._version
            """),
        ),
        Example(
            name="traced",
            code=forward(
                """
                h = self.fc(x)
                if h.requires_grad or h.is_leaf or x is y:
                    h = h * 2
                return h + y
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.randn(4, 8))]",
        ),
    )


def _decides(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a comparison with a value is what a branch asks for."""
    test = parents.get(node)
    if not isinstance(test, ast.Compare):
        return False
    parent = parents.get(test)
    while isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        test, parent = parent, parents.get(parent)
    return isinstance(parent, ast.If | ast.IfExp | ast.While) and parent.test is test


def _is_computed(event: Read) -> bool:
    """Whether the tensor is no argument, attribute or detached tensor, which may well have no history."""
    owner = event.node.value
    arguments = event.function.node.args
    named = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return isinstance(owner, ast.Name) and owner.id not in named


def _addresses(node: ast.Compare) -> list[ast.Call]:
    """The sides of a comparison that ask for an address."""
    sides = [node.left, *node.comparators]
    calls = [one for one in sides if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
    return [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "data_ptr"]


def _compares_two(node: ast.Compare) -> bool:
    """Whether `==` or `!=` compares an address with something else than the address of the same tensor."""
    if not all(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
        return False
    return len({ast.dump(side) for side in [node.left, *node.comparators]}) > 1


def _asks_for_gradients(scope: Scope, event: Read) -> Rewrite:
    """Ask for `requires_grad` in place of `grad_fn` where an operation made the tensor, which has both or neither.

    Raises:
        Refusal: it may be a leaf, or the node itself is needed.
    """
    owner, test = event.node.value, scope.parents[event.node]
    if not isinstance(owner, ast.Name) or not _is_result(scope, owner.id):
        raise Refusal("it may be a leaf")
    named = f"{owner.id}.requires_grad"
    if isinstance(test, ast.Compare) and [ast.unparse(one) for one in test.comparators] == ["None"]:
        node: ast.expr = test
        text = named if isinstance(test.ops[0], ast.IsNot | ast.NotEq) else f"not {named}"
        if text != named and isinstance(scope.parents[test], ast.UnaryOp | ast.Compare):
            text = f"({text})"
    elif isinstance(test, ast.If | ast.BoolOp) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        node, text = event.node, named
    else:
        raise Refusal("the node itself is needed")
    condition = f"nothing asks for gradients of `{owner.id}` after it is computed"
    edit = Replacement(scope.file, *scope.file.span(node), text)
    return Rewrite("Ask whether the tensor needs a gradient", "conditional", (edit,), (condition,))


def _is_result(scope: Scope, name: str) -> bool:
    """Whether all that is assigned to a name is computed by operations, none of which is told to ask for gradients."""
    nodes = list(walk(scope.function.node))
    stores = [one for one in nodes if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)]
    told = any("requires_grad" in (getattr(one, "attr", ""), getattr(one, "arg", "")) for one in nodes)
    in_place = any(isinstance(one, ast.Attribute) and one.attr == "requires_grad_" for one in nodes)
    made = [scope.parents[one] for one in stores]
    return (
        bool(made)
        and not (told or in_place)
        and all(
            isinstance(one, ast.Assign) and len(one.targets) == 1 and makes_tensor(scope, one.value) for one in made
        )
    )


def _same_object(event: Event, node: ast.Compare) -> Rewrite | None:
    """The rewrite into `is` of a comparison of nothing but addresses of tensors that have names."""
    sides = [node.left, *node.comparators]
    names = [one.func.value for one in _addresses(node) if isinstance(one.func, ast.Attribute)]
    if len(names) < len(sides) or not all(isinstance(one, ast.Name) for one in names):
        return None
    file = event.function.file
    words = ["is" if isinstance(one, ast.Eq) else "is not" for one in node.ops]
    first, *others = (file.segment(one) for one in names)
    text = first + "".join(f" {word} {name}" for word, name in zip(words, others, strict=True))
    changes = "views of the same memory, and tensors without elements, no longer count as the same tensor"
    return Rewrite("Compare with `is`", "unsafe", (Replacement(file, *file.span(node), text),), (changes,))
