"""The rank that the analysis knows of a torch operation's result is the rank that torch gives it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.kinds import Tensor

pytestmark = pytest.mark.dynamo

OPERATIONS = """
t.norm(2)
t.norm(2, 1)
t.norm(dim=1)
t.norm()
t.repeat_interleave(2)
t.repeat_interleave(2, 1)
t.repeat_interleave(2, dim=0)
t.var(0, True)
t.var(0, False)
t.std(0, keepdim=True)
t.std(1)
torch.std(t, 1, True)
t.sum()
t.sum(0)
t.sum((0, 1))
t.sum(dim=(0, 1))
t.sum([0])
t.mean(0, True)
t.max()
t.max(1)[0]
torch.max(t, t)
t.max(t)
t.min(0, True)[1]
t.median()
t.median(0)[0]
t.mode()[0]
t.mode(0)[0]
t.nonzero()
t.unique()
torch.unique(t, sorted=False)
torch.unique(t, return_counts=True)[0]
t.unique(dim=0)
t.unique(True, False, False, 1)
t.unique_consecutive()
t.unique_consecutive(dim=1)
t.nonzero(as_tuple=True)[0]
torch.nonzero(t, as_tuple=True)[1]
torch.where(t > 0)[0]
t.argmax()
t.argmax(0)
t.argmax(0, True)
t.cumsum(0)
t.cumsum(dim=0)
t.sort()[0]
t.sort(descending=True)[1]
t.topk(2)[0]
t.unsqueeze(0)
t.squeeze()
t.squeeze(0)
t.flatten()
t.flatten(0)
t.flatten(0, 1)
t.flatten(1)
t.view(-1)
t.view(2, 2, 2)
t.view((2, 4))
t.view(torch.int32)
t.reshape(8)
t.reshape((2, 2, 2))
torch.reshape(t, (2, 4))
t.expand(3, 2, 4)
t.expand_as(torch.zeros(3, 2, 4))
t.new_zeros(3)
t.new_zeros((3, 4))
t.new_zeros(t.shape)
t.new_full((3,), 1.0)
t.new_ones(2, 3)
t.new_empty(())
torch.zeros(3)
torch.zeros((3, 4))
torch.zeros(())
torch.zeros(size=(3, 4))
torch.full((3,), 2.0)
torch.rand(2, 3, 4)
torch.randint(3, (2,))
torch.randint(0, 3, (2, 2))
torch.randint(high=3, size=(2, 2))
torch.normal(0.0, 1.0, (2, 3))
torch.normal(t, 1.0)
torch.eye(3)
torch.arange(3)
torch.linspace(0, 1, 5)
torch.stack([t, t])
torch.stack([t, t], dim=1)
torch.stack((t, t), -1)
torch.cat([t, t])
torch.cat((t, t), 1)
F.one_hot(torch.arange(3))
F.one_hot(torch.arange(3), 5)
t.unbind()[0]
torch.unbind(t, 1)[0]
t.chunk(2)[0]
t.split(1)[0]
torch.split(t, [1, 1])[0]
t.transpose(0, 1)
t.permute(1, 0)
t.t()
t.T
t.gather(1, torch.zeros(2, 1, dtype=torch.long))
t.index_select(0, torch.tensor([0]))
t.scatter(1, torch.zeros(2, 1, dtype=torch.long), 1.0)
t[0]
t[0, 1]
t[:, 0]
t[..., 0]
t[None]
t[:, None]
t[t > 0]
t[torch.tensor([0, 1])]
t[torch.tensor(0)]
t[torch.zeros(2, 2, dtype=torch.long)]
t[:, torch.tensor([0, 1])]
t[torch.tensor([0, 1]), torch.tensor([0, 1])]
t[[0, 1]]
t[0:1]
t[True]
t + 1
t + t[0]
t * t[None]
t > 0
t[0] + t[1]
torch.where(t > 0, t, 0.0)
torch.where(t[0] > 0, t[0], t)
F.softmax(t, -1)
t.softmax(dim=-1)
t.log_softmax(1)
F.pad(t, (1, 1))
t.narrow(0, 0, 1)
t.tril()
t.roll(1)
t.flip(0)
torch.flip(t, [0])
t.float()
t.to(torch.float64)
t.type_as(t)
t.clone()
t.contiguous()
torch.zeros_like(t)
torch.ones_like(t[0])
torch.tensor([1, 2])
torch.tensor(3)
torch.tensor([[1], [2]])
torch.tensor([])
torch.as_tensor([1.0])
torch.logsumexp(t, 1)
t.logsumexp(1, True)
t.any()
t.any(1)
t.all(dim=0)
t.prod(1)
t.prod()
t.amax(1)
t.amax()
t.amax((0, 1))
t.nansum(0)
torch.sum(t, 1)
torch.sum(t, dim=1, keepdim=True)
torch.sum(t)
torch.mean(t, (0,))
torch.argsort(t)
torch.argsort(t[0])
torch.sort(t, 1)[0]
t.masked_fill(t > 0, 0.0)
t.masked_select(t > 0)
torch.masked_select(t, t > 0)
t.ravel()
torch.bincount(torch.arange(3))
t.repeat(2, 2)
t.repeat(2, 2, 2)
t.tile(2)
t @ t.T
torch.matmul(t, t.T)
t.mm(t.T)
torch.bmm(t[None], t.T[None])
torch.einsum('ij,kj->ik', t, t)
t.diagonal()
torch.diag(t)
torch.diag(t[0])
t.unfold(0, 1, 1)
t.cpu()
t.detach()
t.abs()
t.clamp(0, 1)
t.round()
torch.cross(t[:, :3], t[:, :3], dim=1)
torch.outer(t[0], t[0])
torch.dot(t[0], t[0])
torch.histc(t)
torch.unique(t)
t.unique()
torch.cdist(t, t)
t.new_tensor([1.0])
torch.randperm(4)
torch.empty(2, 3, dtype=torch.long)
torch.empty_like(t)
torch.logspace(0, 1, 3)
torch.cummax(t, 0)[0]
torch.tensor_split(t, 2)[0]
t.std()
t.std(unbiased=False)
t.var(unbiased=False)
torch.var(t, 0, unbiased=False)
t.norm(p=2, dim=1, keepdim=True)
torch.norm(t)
torch.norm(t, dim=1)
torch.norm(t, 2, 1)
torch.linalg.norm(t)
t.view_as(t)
t.reshape_as(t)
t.index_add(0, torch.tensor([0]), t[:1])
torch.gather(t, 1, torch.zeros(2, 1, dtype=torch.long))
torch.topk(t, 1)[1]
torch.full_like(t, 1.0)
torch.randint_like(t, 3)
torch.triu(t)
t.max(dim=1).values
t.max(dim=1, keepdim=True).indices
t.sort().values
t.min(1).indices
F.log_softmax(t, dim=1)
torch.median(t)
t[t.view(-1).long() % 2, (t.view(-1) > 0).long()]
t[(t * 1).view(-1).to(torch.int64) % 2]
""".strip().splitlines()
# Of most operations, the analysis knows the rank; the others are here because a guess would be wrong.
LEAST_KNOWN = 0.8


def test_ranks_are_those_of_torch(tmp_path: Path) -> None:
    import torch
    from torch.nn import functional

    path = tmp_path / "model.py"
    head = "import torch\nfrom torch import Tensor, nn\nfrom torch.nn import functional as F\n\n\nclass Model(nn.Module):\n"
    lines = [f"        v{number} = {operation}" for number, operation in enumerate(OPERATIONS)]
    body = "\n".join(["    def forward(self, t: Tensor):", "        b, n = t.shape", *lines, "        return t"])
    path.write_text(f"{head}{body}\n")
    analysis = analyze([path])
    (forward,) = [one for one in analysis.functions if one.name == "forward"]
    kinds = analysis.project.kinds(forward)
    values = [one.value for one in forward.statements if isinstance(one, ast.Assign)][1:]
    known, wrong = 0, []
    for operation, value in zip(OPERATIONS, values, strict=True):
        kind = kinds.get(value)
        if isinstance(kind, Tensor) and kind.rank is not None:
            known += 1
            real = eval(operation, {"torch": torch, "F": functional, "t": torch.rand(2, 4)}).dim()
            wrong += [f"{operation}: {kind.rank}, not {real}"] if kind.rank != real else []
    assert not wrong
    assert known >= LEAST_KNOWN * len(OPERATIONS)
