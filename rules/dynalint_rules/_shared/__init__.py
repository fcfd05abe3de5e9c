"""What rules share to write rewrites, by what they rewrite. No rules here, and nothing that only looks: see `_code`.

`branch` is what a tensor decides, `mask` elements that a mask selects, `number` what is read out of a tensor, `state`
numbers that a module keeps, `guard` statements for eager code alone, and their removal. `text` holds what is put
together as text. New code leaves through `dynalint.rewriting`.
"""
