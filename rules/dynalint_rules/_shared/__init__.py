"""Helpers shared by the rules that write rewrites, grouped by topic. No rules here, and no pure queries: see `_code`.

`branch` handles data-dependent decisions, `mask` elements selected by a mask, and `number` numbers read from a tensor.
`state` handles numbers stored on a module, and `guard` statements that only run eagerly, and their removal. `text`
assembles source text. New code is emitted through `dynalint.rewriting`.
"""
