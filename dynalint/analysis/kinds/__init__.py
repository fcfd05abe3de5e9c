"""Kinds: the lattice of abstract values used by the abstract interpretation.

A kind describes those properties of a value that matter to Dynamo: a tensor, a number read from a tensor, a size, a
Python constant, a container of these, a module, or a callable. `Unknown` is the top of the lattice; no rule flags it.
`Nothing` is the bottom: no value has reached this point yet.

`values` defines the kinds, `lattice` their order, and `views` the queries on them.
"""

from dynalint.analysis.kinds.lattice import *  # noqa: F403
from dynalint.analysis.kinds.values import *  # noqa: F403
from dynalint.analysis.kinds.views import *  # noqa: F403
