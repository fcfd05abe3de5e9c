"""Every rule keeps what its page says: documentation, findings, fixes, and what Dynamo does with its examples."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import dynalint_rules
from dynalint.rules import Rule, all_rules
from dynalint.testing.cases import cases_of
from dynalint.testing.harness import Proof, rule_faults

_PAGES = set(Path(inspect.getfile(dynalint_rules)).parent.rglob("*.md"))


def test_documentation(dynalint_rule: Rule) -> None:
    assert not rule_faults(dynalint_rule)


def test_findings(dynalint_proof: Proof) -> None:
    dynalint_proof.prove_findings()


def test_fix(dynalint_proof: Proof) -> None:
    dynalint_proof.prove_fix()


@pytest.mark.runs_dynamo
@pytest.mark.usefixtures("torch_is_no_burden")
def test_run(dynalint_proof: Proof) -> None:
    dynalint_proof.prove_run()


def test_no_example_is_lost() -> None:
    rules = [rule for rule in all_rules() if type(rule).__module__.startswith("dynalint_rules.")]
    assert {Path(inspect.getfile(type(rule))).with_suffix(".md") for rule in rules} == _PAGES
    written = sum(page.read_text(encoding="utf-8").count("\n```py\n") for page in _PAGES)
    assert sum(len(rule.page().examples) for rule in rules) == written
    assert len(cases_of(rules)) >= written * 0.9, "most examples must hold for the release of torch that is tested"


def test_one_rule_per_file() -> None:
    modules = [type(rule).__module__ for rule in all_rules()]
    assert len(modules) == len(set(modules))


def test_codes_are_those_of_the_family() -> None:
    families = {
        "compile_use": "DYN0",
        "control_flow": "DYN1",
        "tensor_to_python": "DYN2",
        "shapes": "DYN3",
        "side_effects": "DYN4",
        "state": "DYN5",
        "torch_interfaces": "DYN6",
        "python_constructs": "DYN7",
        "recompiles": "DYN8",
    }
    for rule in all_rules():
        family = type(rule).__module__.split(".")[1]
        assert re.fullmatch(rf"{families.get(family, 'DYN')}\d+", rule.code), f"{rule.code} in {family}"
