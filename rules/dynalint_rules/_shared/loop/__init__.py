"""Loops that a tensor ends, and pieces that a loop goes through.

`done_mask.py` is for `break`, `loop_return.py` for `return`: all rounds run, and a mask keeps what there was. Pieces of
lengths from data (`pieces.py`) stay one tensor where they are put together again: `one_piece.py`,
`packed_attention.py`.
"""
