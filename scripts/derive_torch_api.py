"""Derive `dynalint/data/torch_api.json` from the installed torch: `python -m scripts.derive_torch_api [--check]`.

Names are collected from torch's modules, and overloads from its stubs, annotations and operator schemas. Then every
function, method and module is run on the samples in torch's own tests and on generated arguments. This shows the
result's type and dtype, whether the result depends on data, whether the call draws random numbers or changes its
arguments, and whether Dynamo traces it.

Two runs produce the same bytes. Run it with a CPU build of torch, because what other builds add is not covered.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

import torch

from dynalint.analysis.torch_api import Overload
from dynalint.analysis.torch_kinds import UNKNOWN
from scripts.torch_api.classes import Classes, Record
from scripts.torch_api.combine import spell
from scripts.torch_api.evidence import tensor_only
from scripts.torch_api.functions import Functions
from scripts.torch_api.names import collect
from scripts.torch_api.samples import Samples
from scripts.torch_api.tracing import untraced

OUT = Path(__file__).parent.parent / "dynalint" / "data" / "torch_api.json"


def derive() -> str:
    """Return the text of the data file for the installed torch."""
    names = collect()
    samples = Samples()
    functions = Functions(names, samples)
    records = Classes(names, samples, functions).records()
    tensor = records["torch.Tensor"]
    records["torch._C.TensorBase"] = Record([])  # its contents are described under `torch.Tensor`
    same, renamed = _grouped(names.aliases)
    return _dump(
        {
            "torch": torch.__version__.partition("+")[0],
            "functions": {name: spell(overloads) for name, overloads in functions.functions().items()},
            "classes": {name: _class(record, records) for name, record in records.items()},
            "constants": names.constants,
            "aliases": same,
            "renamed": renamed,
            "tensor_only": tensor_only({*tensor.methods, *tensor.attributes}),
            "untraced": {gb: " ".join(found) for gb, found in untraced(functions.examples()).items()},
        }
    )


def _class(record: Record, records: Mapping[str, Record]) -> dict[str, Any]:
    """Return a class in the data file's format, without anything that its bases already say."""
    nothing = [Overload(UNKNOWN)]

    def inherited(name: str, table: str, otherwise: Any) -> Any:
        return next(
            (vars(records[one])[table][name] for one in record.bases if name in vars(records[one])[table]), otherwise
        )

    methods = {
        name: spell(overloads)
        for name, overloads in sorted(record.methods.items())
        if _told(overloads) != _told(inherited(name, "methods", nothing))
    }
    attributes = {
        name: str(kind)
        for name, kind in sorted(record.attributes.items())
        if kind != inherited(name, "attributes", UNKNOWN)
    }
    found = {
        "bases": record.bases,
        "instance": str(record.instance) if record.instance is not None else None,
        "methods": methods,
        "attributes": attributes,
    }
    return {key: value for key, value in found.items() if value}


def _told(overloads: list[Overload]) -> Any:
    """Return what the overloads say about results. If a method's result is unknown, nothing else is useful."""
    return UNKNOWN if all(one.kind == UNKNOWN and not one.flags for one in overloads) else overloads


def _grouped(aliases: Mapping[str, str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Group the aliases that differ from their canonical name only in the package, and return the others separately."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    renamed = {}
    for alias, canonical in sorted(aliases.items()):
        space, _, name = alias.rpartition(".")
        home, _, bare = canonical.rpartition(".")
        if name == bare:
            groups[space][home].append(name)
        else:
            renamed[alias] = canonical
    return {space: {home: " ".join(one) for home, one in homes.items()} for space, homes in groups.items()}, renamed


def _dump(data: Mapping[str, Any]) -> str:
    """Return compact JSON with a line for each entry in a section, so that diffs are readable."""
    sections = []
    for key, value in data.items():
        if isinstance(value, dict):
            lines = [f"{json.dumps(name)}:{json.dumps(value[name], separators=(',', ':'))}" for name in sorted(value)]
            sections.append(f"{json.dumps(key)}:{{\n" + ",\n".join(lines) + "\n}")
        else:
            sections.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}")
    return "{" + ",\n".join(sections) + "}\n"


def main() -> int:
    """Write the file or, with --check, only report whether it matches the installed torch."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is out of date")
    parser.add_argument("--output", type=Path, default=OUT, help="the file to write (default: %(default)s)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    text = derive()
    if arguments.check:
        shipped = OUT.read_text(encoding="utf-8")
        changed = list(unified_diff(shipped.splitlines(), text.splitlines(), "shipped", "derived", lineterm="", n=0))
        print(f"{OUT} {'differs from what this torch gives' if changed else 'is up to date'}", *changed, sep="\n")
        return 1 if changed else 0
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
