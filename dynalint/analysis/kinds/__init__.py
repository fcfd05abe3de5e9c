"""What a value is: the lattice of kinds that the abstract interpretation computes with.

A kind says as much as matters to Dynamo and no more: a tensor, a number read out of a tensor, a size, a Python
constant, a container of these, a module, something callable. `Unknown` is the top of the lattice and an honest answer:
no rule fires on it. `Nothing` is the bottom: no value has come here yet.

`values` has the kinds, `lattice` their order, `views` what may be asked of them.
"""

from dynalint.analysis.kinds.lattice import *  # noqa: F403
from dynalint.analysis.kinds.values import *  # noqa: F403
from dynalint.analysis.kinds.views import *  # noqa: F403
