"""Loops that a tensor ends, and pieces that are cut by lengths from data.

`loop_return.py` is for `return`: all rounds run, and a mask keeps the first result. `one_piece.py` keeps a tensor whole
where its pieces are put together again. `lengths.py` writes through a mask what a loop writes row by row.
"""
