"""What documentation and use tell of parameters that have no annotation, or one that is not precise."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import Branch, Load

HEAD = """\
import torch
from torch import nn, Tensor
"""


def lines(tmp_path: Path, code: str, event: type) -> list[int]:
    """The lines, counted after the head, of events of a type."""
    (tmp_path / "code.py").write_text(HEAD + code)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    return sorted({one.node.lineno - HEAD.count("\n") for one in analysis.events if isinstance(one, event)})


@pytest.mark.parametrize(
    "said",
    [
        "limit : torch.Tensor, shape = (n, 3)",
        "limit : Tensor",
        "limit: torch.Tensor",
        "limit (torch.Tensor): the limit",
        "limit (Tensor, optional): the limit",
        "limit (`torch.FloatTensor` of shape `(batch_size,)`, *optional*):",
        "limit (:class:`torch.Tensor`): the limit",
        ":type limit: torch.LongTensor",
        ":param torch.Tensor limit: the limit",
        ":param ~torch.Tensor limit: the limit",
        "limit: tensor",
        "- limit (torch.tensor): the limit",
    ],
)
@pytest.mark.parametrize("default", ["", "=None"])
def test_a_documented_tensor(tmp_path: Path, said: str, default: str) -> None:
    code = f'''
class Model(nn.Module):
    def forward(self, x: Tensor, limit{default}):
        """Compute.

        Parameters
        ----------
        {said}
            What limits.
        """
        if limit is not None and limit > 0:
            return x
'''
    expected = [] if said == "limit: tensor" else [11]
    assert lines(tmp_path, code, Branch) == expected


@pytest.mark.parametrize(
    "said",
    [
        "limit : float or torch.Tensor",
        "limit : torch.Tensor or float",
        "limit (Tensor | float): the limit",
        "limit (Union[Tensor, float]): the limit",
        "limit (TensorLike): the limit",
        "limit (list of Tensor): the limits",
        "limit: Tensorized computation",
    ],
)
def test_what_may_be_something_else(tmp_path: Path, said: str) -> None:
    code = f'''
class Model(nn.Module):
    def forward(self, x: Tensor, limit):
        """Compute.

        {said}
        """
        if limit > 0:
            return x
'''
    assert lines(tmp_path, code, Branch) == []


def test_an_annotation_and_a_default_say_more(tmp_path: Path) -> None:
    code = '''
class Model(nn.Module):
    def forward(self, x: Tensor, low: float, high=1.0):
        """Compute.

        Args:
            low (Tensor): the least
            high (Tensor): the most
        """
        if low > 0 or high > 0:
            return x
'''
    assert lines(tmp_path, code, Branch) == []


@pytest.mark.parametrize("said", ["torch.sparse, shape = (n, n)", "torch.sparse_coo_tensor", "sparse tensor"])
@pytest.mark.parametrize("annotation", ["", ": Tensor"])
def test_a_documented_sparse_tensor(tmp_path: Path, said: str, annotation: str) -> None:
    code = f'''
class Model(nn.Module):
    def forward(self, x: Tensor, adjacency{annotation}):
        """Compute.

        adjacency : {said}
        """
        return torch.mm(adjacency, x)
'''
    assert lines(tmp_path, code, Load) == [8]


def test_used_as_a_sparse_tensor(tmp_path: Path) -> None:
    code = """
class Layer(nn.Module):
    def forward(self, x: Tensor, adjacency: Tensor):
        h = adjacency @ x
        return h + adjacency.coalesce().values().sum()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x, adjacency):
        return self.layer(x, adjacency)
"""
    assert lines(tmp_path, code, Load) == [4, 5, 13]


@pytest.mark.parametrize(
    "body",
    [
        "if adjacency.is_sparse:\n            return adjacency.coalesce()",
        "return adjacency.coalesce() if self.training else x",
        "adjacency = self.layer(adjacency)\n        return adjacency.coalesce()",
    ],
)
def test_sparse_on_some_ways_only(tmp_path: Path, body: str) -> None:
    code = f"""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor, adjacency: Tensor):
        {body}
        return torch.mm(adjacency, x)
"""
    assert lines(tmp_path, code, Load) == []


def test_what_one_caller_passes_is_sparse(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def forward(self, x: Tensor, adjacency: Tensor):
        return torch.mm(adjacency, x)

def test_model():
    Model()(torch.ones(2, 2), torch.eye(2).to_sparse())
"""
    assert lines(tmp_path, code, Load) == [4]


def test_what_is_handed_to_what_takes_sparse_tensors(tmp_path: Path) -> None:
    code = '''
class Layer(nn.Module):
    def forward(self, x: Tensor, adjacency):
        """Compute.

        adjacency : torch.sparse
        """
        return adjacency @ x

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x: Tensor, up: Tensor, down: Tensor):
        both = up + down
        for layer in self.layers:
            x = layer(x, up) + layer(x, down)
        return both @ x

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x: Tensor, up: Tensor, deep: bool):
        first = up @ x
        if deep:
            first = self.layer(first, up)
        return first
'''
    assert lines(tmp_path, code, Load) == [8, 16, 18, 19, 29]
