"""Elements selected by a mask.

The rewrites compute all elements, and then select some, or use a neutral value for the others. `masked.py` and
`shortcuts.py` remove tests that only save work, and `masked_stores.py` handles stores. `selected_chains.py` and
`selected_losses.py` handle reductions, `trailing.py` guesses dimensions, and `places.py` handles lists of indices.
"""
