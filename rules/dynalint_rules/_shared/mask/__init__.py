"""Elements selected by a mask: computed for all, with a choice or a neutral value for the others.

`masked.py` removes tests that only save work, and `masked_stores.py` handles stores. `selected_chains.py` and
`selected_losses.py` handle reductions, in one or several statements (`trailing.py`).
`places.py` handles lists of positions, and `bins.py` handles `bincount`.
"""
