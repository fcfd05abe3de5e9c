"""Helpers shared by the rewrites of more than one rule. Queries that do not rewrite anything are in `_code`.

`branch` handles data-dependent decisions, `mask` handles elements selected by a mask, and `number` handles numbers read
from a tensor. `state` handles numbers stored on a module, and `guard` handles statements that are removed or only run
in eager code. `text` assembles source text. New code is written with `dynalint.rewriting`. All of them raise a
`Refusal` if the rewrite would not be equivalent.
"""
