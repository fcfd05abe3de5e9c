"""Elements selected by a mask: the rewrites compute all elements, and then select, or use a neutral value for the rest.

`masked.py` and `shortcuts.py` remove tests that only save work, and `masked_stores.py` handles stores.
`selected_chains.py` and `selected_losses.py` handle reductions, and `trailing.py` guesses dimensions. `places.py`
handles lists of indices.
"""
