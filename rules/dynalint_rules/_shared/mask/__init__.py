"""Elements selected by a mask.

The rewrites compute all elements, and then select some, or use a neutral value for the others. `masked.py` and
`shortcuts.py` remove tests that only save work. `masked_stores.py` handles stores, and `joined_stores.py` handles
stores together with the statements beside them. `selected_chains.py` and `selected_losses.py` handle reductions,
`trailing_dimensions.py` guesses dimensions, and `mask_indices.py` handles lists of indices.
"""
