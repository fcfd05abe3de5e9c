"""The files written by `dynalint rule CODE --new FILE`: a complete rule, and its page with tested examples."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from dynalint.errors import DynalintError, UsageError

_RULE = '''"""{code}: in a few words, what is wrong."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, rw


class {class_name}(Rule):
    code = "{code}"
    name = "{name}"
    summary = "`torch.square` where a product would do"
    category = "advice"  # or "graph-break" (then `gb` names Dynamo's ids), "recompile", "miscompile"
    severity = "info"
    events = (Call,)
    calls = frozenset({{"torch.square"}})
    message = "`{{callee}}` is called"
    help = "Write the product."

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Write the product, if the argument is a name and computed once either way."""
        file = event.function.file
        argument = event.node.args[0] if event.node.args else None
        if not isinstance(argument, ast.Name):
            raise Refusal("the argument would be computed twice; give it a name first")
        factor = rw.kept(file, argument)
        product = rw.operation(factor, "*", factor)
        return Rewrite("Write the product", "safe", rw.written(file, (event.node, product)))
'''

_PAGE = """\
# {code}: {name}

In one sentence, what it flags. This one flags `torch.square`: replace it by what yours is about.

## What it flags

Which code is flagged, and which look-alikes are not.

## Why

What Dynamo makes of such code, and what that costs.

## Example

```python
def forward(self, x):
    return torch.square(x)
```

Use instead:

```python
def forward(self, x):
    return x * x
```

## How it is rewritten

What the rewrite looks like, and where none is offered.

## When the rewrite is not exact

What may differ, and for which inputs. `x * x` equals `torch.square(x)` for every input.

## How Dynamo words it

The ids and messages of Dynamo's that this stands for; for advice, none.

## References

- https://docs.pytorch.org/docs/stable/torch.compiler.html

## Proof

### call

```toml
shows = "clean"
```

```py
return torch.square(x)  # {code}
```

```py fixed
return x * x
```

### computed-argument

```toml
shows = "clean"
```

```py
return torch.square(x + 1)  # {code}
```

```text declined
computed twice
```

### product

```py
return x * x
```
"""


def write_rule(code: str, path: Path) -> None:
    """Write a new rule and its page next to it. The rule takes its name from the file.

    Raises:
        UsageError: the code or the name of the file is invalid or already taken.
        DynalintError: a file cannot be written.
    """
    from dynalint.catalogue import catalogue

    entries = catalogue()
    words = path.stem.split("_")
    name = "-".join(words)
    if not re.fullmatch(r"[A-Z]{2,}[0-9]{3}", code):
        raise UsageError(f'a code is capital letters and three digits, such as XYZ101, not "{code}".')
    if code in entries:
        raise UsageError(f"{code} is taken by {entries[code].name}.")
    if path.suffix != ".py" or not re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", name) or keyword.iskeyword(path.stem):
        raise UsageError(f"a rule stands in a file of two or more words, such as branch_on_tensor.py, not {path.name}.")
    if any(entry.name == name for entry in entries.values()):
        raise UsageError(f"the name {name} is taken.")
    class_name = "".join(word.capitalize() for word in words)
    texts = {path: _RULE.format(code=code, name=name, class_name=class_name)}
    texts[path.with_suffix(".md")] = _PAGE.format(code=code, name=name)
    for file in texts:
        if file.exists():
            raise UsageError(f"{file}: the file is there already.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            with file.open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
    except OSError as fault:
        raise DynalintError(f"cannot write {path}: {fault.strerror or fault}.") from fault
