"""Kinds, which are the abstract values used by the abstract interpretation. They form a lattice.

A kind describes the properties of a value that matter to Dynamo: whether it is a tensor, a number read from a tensor, a
size, a Python constant, a container of these, a module, or a callable. `Unknown` is the top of the lattice, and no rule
flags it. `Nothing` is the bottom, and means that no value has reached this point yet.

`base` and `values` define the kinds, `lattice` defines their order, and `views` provides queries on them.
"""

from dynalint.analysis.kinds.base import *  # noqa: F403
from dynalint.analysis.kinds.lattice import *  # noqa: F403
from dynalint.analysis.kinds.values import *  # noqa: F403
from dynalint.analysis.kinds.views import *  # noqa: F403
