"""Calls that stand in a file beside the class: what is taken from them, and what is left alone."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from dynalint.confirm.worker.inputs.written_calls import Written, written_calls

pytestmark = pytest.mark.dynamo

MODEL = '''
import torch
from torch import nn


class Model(nn.Module):
    """A model.

    >>> size = 3
    >>> x = torch.rand(2, 8, size)
    >>> Model(8)(x).shape
    torch.Size([2, 8, 3])
    """

    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1))

    def forward(self, x, scale=1.0):
        return x * self.weight * scale


class Huge(Model):
    pass


class Unmentioned(Model):
    """No example here."""
'''
MAIN = """

def test_model():
    data = open("/etc/passwd").read()
    model = Model(len(data))
    model(torch.rand(1))


def test_huge():
    Huge(4)(torch.rand(4096, 4, 4096))


if __name__ == "__main__":
    import argparse
    parser = argparse.ArgumentParser()
    batch, channels = 4, 16
    device = "cuda"
    x = torch.randn(batch, channels, 9).cuda()
    print(parser)
    model = Model(channels, eps=1e-3).cuda().eval()
    with torch.no_grad():
        out = model(x, scale=2.0)
    raise SystemExit("never run")
"""

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    def loaded(text: str) -> ModuleType:
        path = tmp_path / "written_model.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("written_model", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["written_model"] = module
        spec.loader.exec_module(module)
        return module

    yield loaded
    sys.modules.pop("written_model", None)


def shape(written: Written) -> tuple[int, ...]:
    (x,), _ = written.call
    return tuple(x.shape)


def test_the_main_block_comes_before_the_docstring(load: Load) -> None:
    main, docstring = written_calls(load(MODEL + MAIN).Model)
    assert shape(main) == (4, 16, 9)
    assert main.call[1] == {"scale": 2.0}
    assert main.text == 'Model(channels, eps=0.001), called as the block `if __name__ == "__main__"` does'
    assert main.make().weight.shape == (16, 1)
    assert main.make() is not main.make()
    assert shape(docstring) == (2, 8, 3)
    assert docstring.text == "Model(8), called as its docstring does"


def test_what_is_large_or_reads_files_or_is_not_there_is_passed_over(load: Load) -> None:
    module = load(MODEL + MAIN)
    assert [shape(one) for one in written_calls(module.Huge)] == []
    assert [shape(one) for one in written_calls(module.Unmentioned)] == []
    assert [shape(one) for one in written_calls(torch.nn.Linear)] == [(128, 20)]


README = """
# Models

```bash
pip install models
```

```python
import torch
from written_model import Unmentioned
```

Then:

```python
model = Unmentioned(6).to("cuda:0")
images = torch.randn(3, 6, 5, device="cuda")
out = model(images, scale=0.5)
```
"""
TESTS = """
import pytest
import torch
import written_model

CHANNELS = 7


class TestHuge:
    def test_runs(self):
        model = written_model.Huge(CHANNELS)
        assert model(torch.ones(2, CHANNELS, 4)).shape == (2, CHANNELS, 4)


def test_fixture(model, unknown):
    written_model.Unmentioned(unknown)(unknown)
"""


def test_a_readme_and_the_tests_beside_are_read(load: Load, tmp_path: Path) -> None:
    module = load(MODEL)
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_models.py").write_text(TESTS)
    (readme,) = written_calls(module.Unmentioned, str(tmp_path))
    assert (shape(readme), readme.call[1]) == ((3, 6, 5), {"scale": 0.5})
    assert readme.text == "Unmentioned(6), called as `README.md` does"
    assert not readme.call[0][0].is_cuda
    (test,) = written_calls(module.Huge, str(tmp_path))
    assert (shape(test), test.make().weight.shape) == ((2, 7, 4), (7, 1))
    assert test.text == "written_model.Huge(CHANNELS), called as `test_runs` in `test_models.py` does"
    assert list(written_calls(module.Huge, None)) == []
