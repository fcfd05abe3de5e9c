"""Elements that a mask selects: computed for all, with a choice or a neutral value where nothing is selected.

`masked.py` drops tests that only spare work, `masked_stores.py` is for stores, `masked_reductions.py`,
`selected_chains.py` and `selected_losses.py` for what is reduced, at once or over several statements (`trailing.py`),
`places.py` for places that are listed, `bins.py` for `bincount`.
"""
