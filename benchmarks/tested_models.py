"""Models and inputs from a library's tests, as examples for `prescriptions.py`.

    python benchmarks/tested_models.py TESTS CORPUS TRUTH.jsonl [FAMILY ...] > examples.json

TESTS is the `tests` folder in the transformers repository or a fork of it. CORPUS and TRUTH.jsonl are the same as for
`accuracy.py`. CORPUS, and everything that the tests import, must be on PYTHONPATH. Each model in each test class is
built and called once without a compiler, in evaluation mode and, with labels, in training mode. The output gives the
measured break sites that each one ran. Families are folders in TESTS/models. By default, all families with sites are
used.

An example is an attribute of this module whose name consists of the family, test module, test class, model and mode.
The tests are imported as the package `tests`, which must be on PYTHONPATH where the examples are used.

There is another mode, `given`, which is evaluation mode with additional arguments. These are values that the library
allows callers to compute in advance (`kwargs.pop("cu_seqlens", None)`, with or without a prefix such as `image_`), and
lists instead of small integer tensors. Each argument is only used if the results are identical.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import json
import signal
import sys
import textwrap
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_SEPARATOR = "__OF__"
_SECONDS = 30
# An integer tensor with fewer elements is assumed to contain sizes.
_FEW = 65

Example = Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]


def __getattr__(name: str) -> Example:
    """Return the example with this name."""
    parts = name.split(_SEPARATOR)
    if len(parts) != 5:
        raise AttributeError(name)
    family, module, test, model, mode = parts

    def example() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        tests = importlib.import_module(f"tests.models.{family}.{module}")
        function, args, kwargs = built(getattr(tests, test), model, training=mode == "train")
        return function, args, with_given(function, kwargs) if mode == "given" else kwargs

    return example


def built(test: type[unittest.TestCase], name: str, *, training: bool) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a model built in the same way as in a test, and the arguments with which the test calls it."""
    case: Any = test()
    case.setUp()
    (model,) = (one for one in case.all_model_classes if one.__name__ == name)
    config, inputs = case.model_tester.prepare_config_and_inputs_for_common()
    inputs = case._prepare_for_class(inputs, model, return_labels=training)  # noqa: SLF001 - as the tests do it
    return model(config).train(training), (), dict(inputs)


def with_given(model: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call with additional arguments that only replace values computed in the call."""
    import torch
    from torch.utils import _pytree as pytree

    def results(arguments: Mapping[str, Any]) -> list[Any]:
        torch.manual_seed(0)
        copied = pytree.tree_map_only(torch.Tensor, torch.clone, dict(arguments))
        with torch.no_grad():
            found = model(**copied)
        leaves = pytree.tree_leaves(dict(found) if isinstance(found, Mapping) else found)
        return [one.nan_to_num() if one.is_floating_point() else one for one in leaves if isinstance(one, torch.Tensor)]

    popped, expected = _popped(results, kwargs)
    whole = {
        name: value.tolist()
        for name, value in kwargs.items()
        if isinstance(value, torch.Tensor) and value.dtype == torch.int64 and value.numel() < _FEW and "ids" not in name
    }
    given = dict(kwargs)
    for name, value in {**popped, **whole}.items():
        try:
            found = results({**given, name: value})
        except Exception:  # noqa: BLE001, S112 - what the model does not take is not handed over
            continue
        if len(found) == len(expected) and all(map(torch.equal, found, expected)):
            given[name] = value
    return given


def _popped(run: Callable[[Mapping[str, Any]], list[Any]], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Run a model, and return the results and the values that its functions compute unless passed as keywords."""
    found: dict[str, Any] = {}

    def watch(frame: FrameType, event: str, result: Any) -> None:
        if event != "return" or result is None or "kwargs" not in frame.f_code.co_varnames:
            return
        names = _taken(frame.f_code)
        for name, value in zip(names, result if len(names) > 1 else (result,), strict=False):
            found.setdefault(_modality(frame) + name, value)
            found.setdefault(name, value)  # some models pass on their keywords unchanged

    sys.setprofile(watch)
    try:
        results = run(kwargs)
    finally:
        sys.setprofile(None)
    return found, results


@functools.cache
def _taken(code: CodeType) -> tuple[str, ...]:
    """Return the keywords that a function returns unchanged if they are passed."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError):
        return ()
    keys: dict[str, str] = {}
    for node in ast.walk(tree):
        target: ast.expr | None = node.target if isinstance(node, ast.NamedExpr) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        call = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(call, ast.Call) and ast.unparse(call.func) == "kwargs.pop":
            keys[target.id] = ast.literal_eval(call.args[0]) if isinstance(call.args[0], ast.Constant) else ""
    for node in ast.walk(tree):
        for last in node.body[-1:] if isinstance(node, ast.If) else ():
            if isinstance(last, ast.Return) and last.value is not None:
                parts = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
                if all(isinstance(one, ast.Name) and one.id in keys for one in parts):
                    return tuple(keys[one.id] for one in parts if isinstance(one, ast.Name))
    return ()


def _modality(frame: FrameType | None) -> str:
    """Return the keyword prefix of the encoder that a frame belongs to."""
    while frame is not None:
        for modality in ("image", "video", "audio"):
            if frame.f_code.co_name == f"get_{modality}_features":
                return f"{modality}_"
        frame = frame.f_back
    return ""


def names(tests: Path, families: Sequence[str]) -> Iterator[str]:
    """Yield the names of all examples in the given families."""
    for path in sorted(tests.glob("models/*/test_modeling_*.py")):
        family = path.parent.name
        if family not in families:
            continue
        try:
            module = importlib.import_module(f"tests.models.{family}.{path.stem}")
        except Exception as error:  # noqa: BLE001 - tests may lack what they import
            print(f"{path.stem}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        for test in vars(module).values():
            if _is_test(test) and test.__module__ == module.__name__:
                for model in _models(test):
                    for mode in ("eval", "train"):
                        yield _SEPARATOR.join((family, path.stem, test.__name__, model.__name__, mode))


def _is_test(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, unittest.TestCase) and hasattr(one, "all_model_classes")


def _models(test: Any) -> Sequence[type]:
    try:
        case = test()
        case.setUp()
        return tuple(case.all_model_classes or ())
    except Exception as error:  # noqa: BLE001 - a test that cannot be set up has no models for us
        print(f"{test.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
        return ()


def lines_run(example: Example, lines: dict[str, set[int]]) -> set[tuple[str, int]]:
    """Return which of the given lines, listed by file, an example runs."""
    ran: set[tuple[str, int]] = set()

    def within(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno in lines[frame.f_code.co_filename]:
            ran.add((frame.f_code.co_filename, frame.f_lineno))
        return within

    def entering(frame: FrameType, event: str, argument: Any) -> Any:
        return within(frame, event, argument) if frame.f_code.co_filename in lines else None

    function, args, kwargs = example()
    sys.settrace(entering)
    try:
        function(*args, **kwargs)
    finally:
        sys.settrace(None)
    return ran


def _late(*_: object) -> None:
    raise TimeoutError


def main() -> None:
    """Print the sites that each example runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("families", nargs="*")
    options = parser.parse_args()
    from accuracy import read_truth  # not needed where the examples are used

    sys.path.insert(0, str(options.tests.resolve().parent))
    corpus = options.corpus.resolve()
    lines: dict[str, set[int]] = {}
    for site in read_truth(options.truth, [], None).sites:
        lines.setdefault(str(corpus / site.file), set()).add(site.line)
    known = {Path(file).parent.name for file in lines}
    found: dict[str, list[str]] = {}
    signal.signal(signal.SIGALRM, _late)
    for name in names(options.tests, options.families or sorted(known)):
        signal.alarm(_SECONDS)
        try:
            ran = lines_run(__getattr__(name), lines)
        except Exception as error:  # noqa: BLE001 - a test may need what is not there
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            continue
        finally:
            signal.alarm(0)
        if ran:
            places = sorted(f"{Path(file).relative_to(corpus).as_posix()}:{line}" for file, line in ran)
            found[f"{Path(__file__).resolve()}:{name}"] = places
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
