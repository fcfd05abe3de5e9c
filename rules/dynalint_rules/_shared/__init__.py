"""Helpers for rewrites that several rules share, grouped by topic. Queries that rewrite nothing are in `_code`.

`branch` handles data-dependent decisions, `mask` elements selected by a mask, and `number` numbers read from a tensor.
`state` handles numbers stored on a module, and `guard` statements that are restricted to eager code or removed. `text`
assembles source text. New code is emitted through `dynalint.rewriting`.
"""
