"""Train a classifier on random images. Reading the loss and printing here is fine: only the model is compiled."""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn

from tiny_vision.models import PlainClassifier


def train(model: nn.Module, steps: int, batch: int = 8) -> float:
    """Train for `steps` steps and return the mean loss of the last ten."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses: list[float] = []
    for step in range(steps):
        images, labels = torch.rand(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0:
            print(f"step {step}: loss {losses[-1]:.3f}")
    return sum(losses[-10:]) / len(losses[-10:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--backend", default="inductor", help="the backend of torch.compile")
    options = parser.parse_args()
    model = torch.compile(PlainClassifier(dropout=0.1), backend=options.backend)
    start = time.perf_counter()
    loss = train(model, options.steps)
    print(f"{options.steps} steps in {time.perf_counter() - start:.1f} s, loss {loss:.3f}")


if __name__ == "__main__":
    main()
