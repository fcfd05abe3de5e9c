"""Pages of rules: what is read off them, and what is said of one that is not written as it should be."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dynalint.errors import DynalintError
from dynalint.rulebook.pages import Example, Page, PageError, parse_page, whole_module

_MODULE = """\
import torch
from torch import nn
{head}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {arguments}):
        return self.fc(x)
"""
_LINEAR = "self.fc = nn.Linear(8, 8)"


def parsed(text: str) -> Page:
    return parse_page(f"# DYN999: some-rule\n{text}", "some_rule.md", "DYN999: some-rule")


def test_the_documentation_goes_up_to_the_proof() -> None:
    text = "\nWhat it says.\n\n## Why\n\n```text\n## Proof\n```\n"
    assert parsed(text) == Page(text.strip())
    assert parsed(f"{text}\n## Proof\n") == Page(text.strip())


def test_an_example_has_code_and_what_becomes_of_it() -> None:
    text = """
## Proof

### the first, of two

In words.

```toml
inputs = '[(torch.ones(4, 8),)]'
shows = "recompile"
gb = ["GB0001"]
exact = false
options = { print-fix = "remove" }
```

```py
import torch  # DYN999
```

```py fixed
import torch
```

### the second

````py
import torch
'''
```
'''
````

```text declined
no way
```
"""
    first, second = parsed(text).examples
    assert first == Example(
        "the first, of two",
        "import torch  # DYN999\n",
        inputs="[(torch.ones(4, 8),)]",
        fixed="import torch\n",
        shows="recompile",
        gb=("GB0001",),
        exact=False,
        options={"print-fix": "remove"},
    )
    assert second == Example("the second", "import torch\n'''\n```\n'''\n", declined="no way")


@pytest.mark.parametrize(
    ("code", "head", "init", "arguments"),
    [
        ("return self.fc(x)\n", "", _LINEAR, "x: torch.Tensor"),
        ("def forward(self, y, x):\n    return self.fc(x)\n", "", _LINEAR, "y, x"),
        (
            "def __init__(self):\n    self.fc = abs\n\ndef forward(self, x):\n    return self.fc(x)\n",
            "",
            "self.fc = abs",
            "x",
        ),
        ("LEVEL = 1\n\n\ndef forward(self, x):\n    return self.fc(x)\n", "\nLEVEL = 1\n", _LINEAR, "x"),
    ],
)
def test_short_code_stands_for_a_module(code: str, head: str, init: str, arguments: str) -> None:
    module = _MODULE.format(head=head, init=init, arguments=arguments)
    assert whole_module(code) == module
    assert whole_module(module) == module


def test_imports_of_short_code_go_with_the_others() -> None:
    code = "import math\n\n\ndef forward(self, x):\n    return x * math.pi\n"
    assert whole_module(code).startswith("import math\nimport torch\nfrom torch import nn\n\n\nclass Model")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## Proof\n## More\n", '3: the heading of an example must begin with "### "'),
        ("## Proof\n```py\n```\n", '3: a block must follow a heading "### " that'),
        ("## Proof\n### a\n", '3: the example "a" has no block `py`'),
        ("## Proof\n### a\n```py\npass\n", "4: the block that begins here is never closed"),
        ("## Why\n```py\npass\n", "3: the block that begins here is never closed"),
        ("## Proof\n### a\n```python\n```\n", "4: an example's block must be one of toml, py, py fixed, text declined"),
        ("## Proof\n### a\n```py\n```\n```py\n```\n", '6: the example "a" has a second block `py`'),
        (
            "## Proof\n### a\n```py fixed\n```\n```text declined\n```\n",
            '6: the example "a" has `text declined` together',
        ),
        ("## Proof\n### a\n```toml\n\ninput = 1\n```\n", "6: examples have no setting input = 1"),
        ("## Proof\n### a\n```toml\nexact = 'no'\n```\n", "5: examples have no setting exact = 'no'"),
        ("## Proof\n### a\n```toml\nshows = 'smoke'\n```\n", "5: `shows` must be one of graph-break, recompile"),
        ("## Proof\n### a\n```toml\nshows\n```\n", "5: not valid TOML"),
        ("## Proof\n### a\n```py\n```\n### a\n```py\n```\n", '6: two examples have the name "a"'),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, words: str) -> None:
    with pytest.raises(DynalintError, match=re.escape(f"some_rule.md:{words}")):
        parsed(text)


def test_a_page_carries_the_title_of_its_rule() -> None:
    with pytest.raises(PageError, match=r'some_rule.md:1: the page must begin with "# DYN999: some-rule"'):
        parse_page("# DYN998: some-rule\n", "some_rule.md", "DYN999: some-rule")


def test_a_check_reads_no_page(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import torch\n\n\n@torch.compile\ndef f(x):\n    print(x)\n    return x\n")
    code = (
        "import pkgutil\n"
        "pkgutil.get_data = None\n"
        "from dynalint.cli import run\n"
        "assert run(['check', '--static', '--isolated', '--no-cache', '-q']) == 1\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
