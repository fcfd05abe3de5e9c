"""The API for writing rules. This is the only dynalint module that rules import.

It provides events (`Call`, `Branch`, `StateChange` and so on), kinds of values (`k`), the project and its files, a
rule's answers (`Violation`, `Rewrite`, `Refusal`), and rewriting (`rw`).
"""

from __future__ import annotations

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api
from dynalint.analysis.compiler_uses import dotted_name
from dynalint.analysis.comprehensions import COMPREHENSIONS, Comprehension
from dynalint.analysis.decorators import STATIC_OBJECT
from dynalint.analysis.doubts import is_test
from dynalint.analysis.dunders import method_name
from dynalint.analysis.events import (
    Assertion,
    Branch,
    Call,
    ClassDefinition,
    CompilerUse,
    ContainerChange,
    Entry,
    Event,
    Format,
    GeneratorRoot,
    GlobalRead,
    Importing,
    InplaceChange,
    InstalledCall,
    ItemWrite,
    Iteration,
    Load,
    Operation,
    Ordering,
    Raising,
    Read,
    StateChange,
    Subscript,
    Write,
)
from dynalint.analysis.exits import fails, leads_to_raise
from dynalint.analysis.externals import PROGRESS_BARS
from dynalint.analysis.functions import DISABLED
from dynalint.analysis.given_up import called_function, ends_function, is_scripted, way
from dynalint.analysis.hooks import HOOKED
from dynalint.analysis.index import ClassInfo, FunctionInfo, FunctionNode, Import, ModuleInfo, walk_function
from dynalint.analysis.project import Project
from dynalint.analysis.signatures import has_decorator
from dynalint.analysis.source import SourceFile, quote
from dynalint.analysis.sparse import RECURRENT_LAYERS, SPARSE_MAKERS
from dynalint.analysis.steps import remembered, step, walk
from dynalint.analysis.stores import FUNCTION_VARIABLE
from dynalint.analysis.subscripts import index_parts, is_mask
from dynalint.findings import Safety
from dynalint.rules import Declined, Refusal, Replacement, Rewrite, Rule, Violation, all_rules

__all__ = [
    "COMPREHENSIONS",
    "DISABLED",
    "FUNCTION_VARIABLE",
    "HOOKED",
    "PROGRESS_BARS",
    "RECURRENT_LAYERS",
    "SPARSE_MAKERS",
    "STATIC_OBJECT",
    "Assertion",
    "Branch",
    "Call",
    "ClassDefinition",
    "ClassInfo",
    "CompilerUse",
    "Comprehension",
    "ContainerChange",
    "Declined",
    "Entry",
    "Event",
    "Format",
    "FunctionInfo",
    "FunctionNode",
    "GeneratorRoot",
    "GlobalRead",
    "Import",
    "Importing",
    "InplaceChange",
    "InstalledCall",
    "ItemWrite",
    "Iteration",
    "Load",
    "ModuleInfo",
    "Operation",
    "Ordering",
    "Project",
    "Raising",
    "Read",
    "Refusal",
    "Replacement",
    "Rewrite",
    "Rule",
    "Safety",
    "SourceFile",
    "StateChange",
    "Subscript",
    "Violation",
    "Write",
    "all_rules",
    "called_function",
    "dotted_name",
    "ends_function",
    "fails",
    "has_decorator",
    "index_parts",
    "is_mask",
    "is_scripted",
    "is_test",
    "k",
    "leads_to_raise",
    "method_name",
    "quote",
    "remembered",
    "rw",
    "step",
    "torch_api",
    "walk",
    "walk_function",
    "way",
]
