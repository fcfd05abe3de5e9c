"""Random programs, fixed and compared: no fix that is applied may change anything. How many are repaired is only told.

    ./dev long -k generated -s                              programs 0 to 299
    DYNALINT_PROGRAMS=1000-1999 ./dev long -k generated -s  others
    DYNALINT_PROGRAMS=1234 ./dev long -k generated -s       a single one

The engine verifies each fix in this process, without its compiled part, which the test makes up for: it tries the
fixed program on inputs of its own, in training and evaluation, and asks Dynamo for its graph.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.fix import FixOptions, FixResult, fix_findings
from dynalint.fix.verify import WorkerVerifier
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import text_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules

from .one_graph import what_no_graph_does
from .programs import programs

PROGRAMS = os.environ.get("DYNALINT_PROGRAMS", "0-299")
_INPUTS = 16


def wanted_programs() -> range:
    """Return the numbers of the programs to try."""
    first, _, last = PROGRAMS.partition("-")
    return range(int(first), int(last or first) + 1)


def fix(path: Path, code: str, *, verify: bool = True) -> FixResult:
    """Fix a program as `dynalint fix --apply` would."""
    path.write_text(code)
    layer = parse_layer({"confirm": "never"}, path.parent, lambda _: "the test")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), path.parent)
    linter = Linter(text_workspace(path, code.encode(), configuration, path.parent), all_rules())
    options = ConfirmOptions(
        mode="always", project=path.parent, directory=path.parent, search=(path.parent,), timeout=400,
        examples={"model:Model": "model:example"},
    )  # fmt: skip
    with WorkerVerifier(options, [Target(path, "model", "Model")]) as verifier:
        return fix_findings(linter({}), linter, FixOptions(), verifier if verify else None)


def first_difference(path: Path, before: str, after: str) -> str | None:
    """Run both on inputs that the engine has not tried; say what differs first."""
    import torch

    from dynalint.confirm.worker.comparing.differences import Equality, difference
    from dynalint.confirm.worker.comparing.observing import observe
    from dynalint.confirm.worker.source.versions import Version

    versions = [Version([str(path.parent)], [], {str(path): text}) for text in (before, after)]
    for training in (True, False):
        models = []
        for version in versions:
            with version.active():
                torch.default_generator.manual_seed(0)
                models.append(__import__("model").Model().train(training))
        for number, arguments in enumerate(_inputs()):
            seen = []
            for version, model in zip(versions, models, strict=True):
                with version.active():
                    seen.append(observe(model, model, (arguments, {}), 1000 + number, training=training))
            differs = difference(seen[0], seen[1], Equality())
            if differs is not None:
                return f"{'training' if training else 'evaluation'}, input {number}: {differs}"
    return None


def _inputs() -> Iterator[tuple[object, object]]:
    import torch

    generator = torch.Generator().manual_seed(4711)
    for number in range(_INPUTS):
        rows = (3, 1, 5, 2)[number % 4]
        scale = (0.3, 1.0, 2.5, 40.0)[number // 4]
        x, y = (torch.randn(rows, 4, generator=generator) * scale + shift for shift in (number % 3 - 1, 0.4))
        if number in (7, 13):
            x[0, 1] = (float("inf"), float("nan"))[number == 13]
        if number == 9:
            y = x.clone()
        if number in (10, 11):
            x = x.round()
        yield x, y


def breaks(path: Path, code: str) -> str | None:
    """Say why Dynamo makes more than one graph of a program in one of its modes, or none; None if it makes one in each."""
    import torch

    from dynalint.confirm.worker.source.versions import Version

    version = Version([str(path.parent)], [], {str(path): code})
    torch.compiler.reset()
    with version.active():
        model, arguments = __import__("model").example()
        for training in (True, False):
            try:
                torch.compile(model.train(training), backend="eager", fullgraph=True)(*arguments)
            except Exception as error:  # noqa: BLE001 - whatever it is, there is no graph
                return f"{type(error).__name__}: {error}"
    return None


def never_whole(path: Path, code: str) -> str | None:
    """Say why no graph does what a program does; None if one may."""
    from dynalint.confirm.worker.source.versions import Version

    with Version([str(path.parent)], [], {str(path): code}).active():
        module = __import__("model")
        return what_no_graph_does(module.Model, (module.example()[1], {}))


def runs(path: Path, code: str) -> bool:
    """Whether a program runs on its example, without the compiler."""
    from dynalint.confirm.worker.source.versions import Version

    with Version([str(path.parent)], [], {str(path): code}).active():
        model, arguments = __import__("model").example()
        try:
            model(*arguments)
        except Exception:  # noqa: BLE001 - it is drawn at random
            return False
    return True


def check_program(path: Path, code: str, counts: Counter[str]) -> None:
    """Fix a program, compare it, fix it again; count what came of it."""
    counts["programs"] += 1
    result = fix(path, code)
    text = next((file.text for file in result.files), code)
    for fixed in result.fixed:
        counts["fixes"] += 1
        counts[f"fixes {fixed.verification.outcome if fixed.verification else 'along'}"] += 1
    counts["fixes refuted"] += sum(refused.refuted for refused in result.refused)
    if text != code:
        counts["changed"] += 1
        differs = first_difference(path, code, text)
        assert differs is None, f"{differs}\n{code}\nbecame\n{text}"
        again = fix(path, text)
        assert not again.files, f"fixed again:\n{text}\nbecame\n{again.files[0].text}"
    path.write_text(code)
    if runs(path, code) and breaks(path, code) is not None:
        counts["breaking"] += 1
        left, differs = breaks(path, text), never_whole(path, code)
        assert left is not None or differs is None, f"{differs} depends on the input in\n{code}\nand became\n{text}"
        counts["repaired"] += left is None
        counts["no graph can" if differs else "one graph can"] += 1


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.runs_dynamo
def test_generated_programs_stay_what_they_are(
    tmp_path: Path, compiled: None, here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    from dynalint.confirm.worker.dynamo import runs
    from dynalint.confirm.worker.operations import verifying

    monkeypatch.setattr(verifying, "compiled_after", lambda *_: {"problem": "the test compiles it"})
    # As in a worker without a GPU, for which torch would note down each seed.
    monkeypatch.setattr(runs, "seed_torch", torch.default_generator.manual_seed)
    counts: Counter[str] = Counter()
    seen: set[str] = set()

    def check(code: str) -> None:
        if code not in seen:
            seen.add(code)
            check_program(tmp_path / "model.py", code, counts)

    # Each by itself: of one search for many, Hypothesis follows each program by near copies of it, which come to one
    # answer many times over. The first that it tries is always the simplest, so that it takes two to get another.
    alone = settings(
        max_examples=2,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        for number in wanted_programs():
            seed(number)(alone(given(programs())(check)))()
    finally:
        with capsys.disabled():
            print("", *(f"{name}: {number}" for name, number in counts.items()), sep="\n")
