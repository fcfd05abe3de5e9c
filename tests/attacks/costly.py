"""Inputs that are made to cost more than their size: what somebody might commit to keep a linter busy.

`python tests/attacks/costly.py FOLDER` writes them, one file each.
"""

from __future__ import annotations

import sys
from pathlib import Path

_MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
"""


def model(*statements: str) -> str:
    """Return a module whose `forward` consists of statements."""
    body = "\n".join(statements)
    return _MODEL + "".join(f"        {line}\n" for line in body.split("\n")) + "        return x\n"


def _indented(levels: int, head: str, last: str) -> str:
    return "\n".join(" " * depth + head.format(depth) for depth in range(levels)) + "\n" + " " * levels + last


def _classes(count: int) -> str:
    body = """

class Model{0}(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        if x.sum() > 0:
            y = x + 1
        if x.max() > {0}:
            y = y * 2
        print(x.item())
        n = int(x.sum())
        for i in range(n):
            y = y + i
        z = y.tolist()
        while y.mean() > 1:
            y = y / 2
        assert y.sum() < 3
        return y + len(z)
"""
    return "import torch\nfrom torch import nn\n" + "".join(body.format(number) for number in range(count))


INPUTS = {
    "classes_250": _classes(250),
    "test_of_1000_terms": model("if " + " + ".join(["x"] * 1000) + ":", "    x = x + 1"),
    "ifs_40": model(*(f"if x.sum() > {n}:\n    x = x + {n}" for n in range(40))),
    "ifs_150": model(*(f"if x.sum() > {n}:\n    x = x + {n}" for n in range(150))),
    "and_of_60": model("if " + " and ".join(f"(x > {n}).any()" for n in range(60)) + ":\n    x = x + 1"),
    "and_of_300": model("if " + " and ".join(f"(x > {n}).any()" for n in range(300)) + ":\n    x = x + 1"),
    "elifs_300": model(
        "if x.sum() > 0:\n    y = x\n" + "\n".join(f"elif x.sum() > {n}:\n    y = x + {n}" for n in range(1, 300))
    ),
    "ifs_in_ifs_18": model(_indented(18, "if x.sum() > {}:", "x = x + 1")),
    "loops_in_loops_18": model(_indented(18, "for i{0} in range(int(x.sum())):", "x = x + 1")),
    "tries_in_tries_12": model("\n".join(" " * n + "try:" for n in range(12)) + "\n" + " " * 12 + "x = x + 1\n"
        + "\n".join(" " * n + "finally:\n" + " " * (n + 1) + "x = x * 2" for n in reversed(range(12)))),
    "sum_of_900": model("x = " + " + ".join(["x"] * 900)),
    "attributes_900": model("x = self" + ".a" * 900),
    "calls_900": model("x = " + "f(" * 90 + "x" + ")" * 90),
    "calls_of_calls_900": model("x = self" + ".f()" * 900),
    "subscripts_900": model("x = x" + "[0]" * 900),
    "unary_900": model("x = " + "-" * 900 + "x"),
    "tuples_90": model("x = " + "(" * 90 + "x" + ",)" * 90),
    "dicts_90": model("x = " + "{1:" * 90 + "x" + "}" * 90),
    "comprehensions_60": model("x = " + "[" * 60 + "x" + "".join(f" for i{n} in x]" for n in range(60))),
    "lambdas_90": model("x = " + "lambda: (" * 90 + "x" + ")" * 90),
    "conditionals_90": model("x = " + "x if x.any() else (" * 90 + "x" + ")" * 90),
    "functions_in_functions_90": model(_indented(90, "def f{}(x):", "return x.item()")),
    "classes_in_classes_90": _indented(90, "class C{}:", "pass") + "\n",
    "functions_3000": "import torch\n" + "".join(f"def f{n}(x: torch.Tensor): return f{(n + 1) % 3000}(x)\n" for n in range(3000)),
    "mutual_recursion_60": "import torch\nfrom torch import nn\nclass M(nn.Module):\n"
    + "".join(f"    def f{n}(self, x, y):\n        return " + " + ".join(f"self.f{m}(y, x)" for m in range(60)) + "\n" for n in range(60))
    + "    def forward(self, x):\n        return self.f0(x, 1)\n",
    "bases_500": "class C0: pass\n" + "".join(f"class C{n}(C{n - 1}):\n    def f(self): return self.g{n}()\n" for n in range(1, 500)),
    "diamonds_60": "class A0: pass\nclass B0: pass\n" + "".join(f"class A{n}(A{n - 1}, B{n - 1}): pass\nclass B{n}(A{n - 1}, B{n - 1}): pass\n" for n in range(1, 60)),
    "diamonds_right_300": "class A0: pass\n" + "".join(f"class B{n}(A{n - 1}): pass\nclass C{n}(A{n - 1}): pass\nclass A{n}(B{n}, C{n}): pass\n" for n in range(1, 300)),
    "assignments_10000": model(*(f"x{n} = x + {n}" for n in range(10_000))),
    "same_assignments_10000": model(*("x = x + 1" for _ in range(10_000))),
    "decorators_2000": "import torch\n" + "@torch.compile\n" * 2000 + "def f(x):\n    return x.item()\n",
    "constants": model("a = 10 ** 10 ** 8", "b = 'a' * 10 ** 12", "c = 1 << 10 ** 9", "d = [0] * 10 ** 12", "e = -(2 ** 10 ** 9)",
        "for i in range(10 ** 12):\n    x = x + i", "x = x.view(10 ** 10 ** 8, -1)", "if 10 ** 10 ** 8 > 3:\n    x = x + 1"),
    "long_string": model("'''" + "a" * 2_000_000 + "'''", "print(x)"),
    "long_line": model("x = f(" + ", ".join(["x"] * 200_000) + ")"),
    "unions": model("for i in range(3):\n" + "\n".join(f"    x = (x, {n}) if i else [x, y]" for n in range(60))),
    "annotations": "import torch\n" + "".join(f"def f{n}(x: {'Optional[' * 90 + 'int' + ']' * 90}) -> {' | '.join(f'A{m}' for m in range(900))}: return x\n" for n in range(20)),
    "annotation_strings": "def f(x: " + repr(repr(repr(repr(repr(repr("'int'")))))) + "): return x\n",
    "aliases": "from typing import *\nA = B\nB = A\nC = Union['C', 'D']\nD = Union['C', 'D', 'A']\nclass M:\n    def f(self, x: D, y: 'C') -> A: return x\n",
    "star_ring": "from star_ring import *\n__all__ = [*__all__, 'x']\n__all__ += __all__\n__all__ = __all__ + __all__\n",
    "lattice": model("while y.any():\n" + "\n".join(f"    a{n} = a{n - 1}" for n in range(200, 0, -1)) + "\n    a0 = (a200, x)"),
    "matches_200": model("match y:\n" + "\n".join(f"    case [{'[' * 20}a{n}{']' * 20}] if x.sum() > {n}:\n        x = x + 1" for n in range(200))),
    "f_strings": model(*('x = f"' + "{x}" * 500 + '"' for _ in range(20))),
    "prints_2000": model(*("print(x)" for _ in range(2000))),
    "items_800": model(*("y = y + x.item()" for _ in range(800))),
    "suppressions_5000": model(*(f"print(x)  # dynalint: ignore[DYN{n % 900 + 100}]" for n in range(5000))),
    "attributes_2000": "from torch import nn\nclass M(nn.Module):\n    def __init__(self):\n" + "".join(f"        self.a{n} = {n}\n" for n in range(2000)) + "    def forward(self, x):\n" + "".join(f"        self.a{n} = self.a{n + 1}\n" for n in range(1999)) + "        return x\n",
    "partials": model("f = print", *("f = partial(f, f, f)" for _ in range(60)), "f()"),
    "doubling_dicts": model("d = {}", *("d = {1: d, 2: d, 'a': [d, d]}" for _ in range(60)), "print(d)"),
    "doubling_globals": "import torch\ng0 = torch.ones(3)\n" + "".join(f"g{n} = (g{n - 1}, g{n - 1}, g{n - 1})\n" for n in range(1, 200))
    + "@torch.compile\ndef f(x):\n    return g199, x.item()\n",
    "growing_attributes": "from torch import nn\nclass M(nn.Module):\n"
    + "".join(f"    def f{n}(self, x):\n        self.a{n} = (self.a{n + 1}, self.a{n * 7 % 200})\n        return self.a{n}\n" for n in range(200))
    + "    def forward(self, x):\n        self.a200 = x\n        return " + " + ".join(f"self.f{n}(x)" for n in range(200)) + "\n",
    "growing_in_a_loop": model(*(f"x{n} = (x, [y, ({n},)])" for n in range(400)), "while y.any():",
        "\n".join(f"    if y.sum() > {n}:\n        x{n} = [x{n}, x{(n + 1) % 400}, x{n}]" for n in range(400))),
    "ifs_5000": model(*(f"if y:\n    v{n} = x" for n in range(5000))),
    "super_300": "from torch import nn\nclass C0(nn.Module):\n    def forward(self, x): return self.g(x)\n    def g(self, x): return x.item()\n"
    + "".join(f"class C{n}(C{n - 1}):\n    def g(self, x): return super().g(x) + self.h(x)\n    def h(self, x): return self.forward(x)\n" for n in range(1, 300)),
    "climbing_loops": model("\n".join(" " * n + f"while y.sum() > {n}:\n" + " " * (n + 1) + f"a{n} = a{n + 1} = (a{n * 3 % 12}, x) if y else [a{n * 5 % 12}]" for n in range(12))
        + "\n" + " " * 12 + "x = a3"),
}  # fmt: skip


def main(folder: Path) -> None:
    """Write all inputs."""
    folder.mkdir(exist_ok=True)
    for name, text in INPUTS.items():
        (folder / f"{name}.py").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
