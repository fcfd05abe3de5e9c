"""Breaks that do not happen because of what the function tests or does before. Torch 2.13 was run."""

from __future__ import annotations

import dynalint

_START = "import torch\nfrom torch import nn\n\n\n"


def test_a_parameter_of_what_was_computed_before_another_one() -> None:
    """The first parameter breaks the graph, and the graph that follows is given the tensor."""
    code = """\
class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        m, v = x.mean(0), x.var(0)
        mean = m * 2
        var = v * 2
        a = nn.Parameter(mean, requires_grad=False)
        b = nn.Parameter(var, requires_grad=False)
        later = x + 1
        return a + b + nn.Parameter(later, requires_grad=False)
"""
    found = dynalint.check_source("model.py", _START + code)
    assert [one.line - 4 for one in found if one.code == "DYN604"] == [6, 9]


def test_a_tensor_that_a_function_tests_for_being_sparse() -> None:
    code = """\
def dense(x: torch.Tensor):
    return x.reshape(2, -1) * 2


def either(x: torch.Tensor):
    if x.is_sparse:
        return x.coalesce().values()
    return dense(x)


class Dense(nn.Module):
    def forward(self, x: torch.Tensor):
        return either(x)


class Sparse(nn.Module):
    def forward(self, x: torch.Tensor):
        return either(x.to_sparse())
"""
    found = dynalint.check_source("model.py", _START + code)
    assert [(one.code, one.function) for one in found] == [("DYN606", "Sparse.forward")]


def test_a_tensor_whose_name_ends_like_one_that_is_tested() -> None:
    code = """\
def values(x: torch.Tensor, max_x: torch.Tensor):
    return x * 2 if max_x.is_sparse else x


class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        return values(x.to_sparse(), x)
"""
    found = dynalint.check_source("model.py", _START + code)
    assert ("DYN606", "values") in [(one.code, one.function) for one in found]
