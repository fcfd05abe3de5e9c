"""DYN209: a function of NumPy that Dynamo cannot trace."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, Read
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.grids import as_ranges
from dynalint_rules._shared.scope import Refusal, Scope

# Not in `torch._numpy`, by calling each of them under torch 2.13. Files are DYN410, random numbers DYN408.
_FUNCTIONS = (
    "apply_along_axis apply_over_axes argpartition array2string array_repr array_str asanyarray asarray_chkfinite "
    "asfortranarray asmatrix base_repr binary_repr bitwise_count block bmat compress cumulative_prod cumulative_sum "
    "delete digitize ediff1d einsum_path extract frexp frombuffer fromfunction fromiter frompyfunc fromstring "
    "histogram_bin_edges insert interp intersect1d isin iterable ix_ lexsort mask_indices matvec may_share_memory "
    "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd "
    "nansum nanvar packbits partition piecewise place poly polyadd polyder polydiv polyfit polyint polymul polysub "
    "polyval putmask ravel_multi_index require roots select setdiff1d setxor1d shares_memory sort_complex spacing "
    "trapezoid trim_zeros typename union1d unique_all unique_counts unique_inverse unique_values unpackbits "
    "unravel_index unwrap vecdot vecmat ndim size isscalar iscomplexobj isrealobj common_type isfortran "
    "matrix_transpose unstack"
).split()
_LINALG = "cross diagonal matmul matrix_norm matrix_transpose outer svdvals tensordot trace vecdot vector_norm".split()
_METHODS = ("tobytes",)
_ATTRIBUTES = ("dtype", "base")
# Objects that are indexed, not called.
_INDEXED = ("c_", "mgrid", "ogrid", "r_", "s_")


class UntracedNumpy(Rule):
    """Call a function of NumPy that `torch._numpy` does not have.

    ## What it flags
    Calls such as `np.interp`, `np.isin`, `np.polyfit`, `np.nanmean`, `np.frexp`, `np.linalg.norm`'s newer namesakes in
    `np.linalg`, `array.tobytes()`, the objects that make arrays of an index (`np.ogrid[:n, :n]`, `np.mgrid`,
    `np.r_`, `np.c_`, `np.s_`), and reads of `array.dtype` and `array.base`, in code that is compiled. Not flagged: the
    hundreds of functions of NumPy that Dynamo traces as operations on tensors (`np.sqrt`, `np.where`, `np.einsum`,
    ...), and the other attributes of arrays.

    ## Why
    Dynamo traces NumPy by the implementation of it on tensors that comes with torch. What that lacks, NumPy itself has
    to run, and the graph ends there.

    ## Example
    ```python
    def forward(self, x):
        allowed = np.isin(x.numpy(), [1, 2])
        return torch.from_numpy(allowed)
    ```

    Use instead:
    ```python
    def forward(self, x):
        return torch.isin(x, torch.tensor([1, 2]))
    ```

    ## How it is rewritten
    `np.ogrid[:n, :m]` and `np.mgrid[:n, :m]` with bounds that are whole numbers become `np.arange`, which is traced.
    The others are not rewritten: most have no operation in torch of the same meaning. `torch.library.custom_op` makes
    the call one opaque operation in the graph.

    ## When the rewrite is not exact
    `np.ogrid` raises for bounds that are not in order, where `np.arange` gives nothing. That is `conditional` where the
    bounds are not written out or sizes. NumPy computes in double precision by default, torch in single precision.

    ## How Dynamo words it
    GB0294: `attempted to trace numpy function unsupported by PyTorch`. For methods GB0158: `Unsupported ndarray method
    call`, for attributes GB0157: `Unsupported ndarray attribute access`. For functions that give Python values GB0208:
    `torch.* op returned non-Tensor`. For indexed objects GB0008: `Attempted to inline function marked as skipped`.

    ## References
    - https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
    - https://docs.pytorch.org/docs/stable/library.html
    """

    code = "DYN209"
    name = "untraced-numpy"
    summary = "a function of NumPy that Dynamo has no version of ends the graph"
    gb = ("GB0294", "GB0158", "GB0157", "GB0208", "GB0008")
    events = (Call, Read)
    calls = frozenset(
        {
            *(f"numpy.{name}" for name in _FUNCTIONS),
            *(f"numpy.linalg.{name}" for name in _LINALG),
            *(f"Tensor.{name}" for name in (*_METHODS, *_ATTRIBUTES)),
            *(f"numpy.{name}" for name in _INDEXED),
        }
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call; a method only where the receiver is certainly an array."""
        if not isinstance(event, Call | Read) or leads_to_raise(event, project):
            return
        if isinstance(event, Read):
            yield from _read(event)
            return
        name = event.callee.replace("numpy.", "np.")
        if event.callee.startswith("Tensor."):
            array = k.only_tensor(event.receiver) if event.receiver is not None else None
            if array is None or not array.array:
                return
            name = f"array.{event.callee.rpartition('.')[2]}"
        yield Violation(
            event.node,
            f"Dynamo has no version of `{name}()`, so the graph ends there",
            help="use an operation of torch, or make the call one with `torch.library.custom_op`",
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Make grids of whole numbers by functions that are traced; what comes nearest to the others differs."""
        if isinstance(event, Read) and event.name in ("numpy.mgrid", "numpy.ogrid"):
            try:
                rewrite = as_ranges(Scope.of(event, project), event.node)
            except Refusal as refusal:
                return Declined(str(refusal))
            if rewrite is not None:
                return rewrite
        return Declined(
            "what comes nearest in torch differs from function to function, and mostly in precision; compute with "
            "tensors, or make the call one operation with `torch.library.custom_op`"
        )

    examples = (
        Example(
            name="interp",
            code=forward(
                """
                values = np.interp(x.numpy()[0], [0.0, 1.0], [0.0, 2.0])  # DYN209
                return x.sum() + torch.from_numpy(values)
                """,
                head="import numpy as np",
                init="pass",
            ),
            inputs="[(torch.rand(4, 8),)]",
            declined="custom_op",
        ),
        Example(
            name="dtype-of-an-array",
            code=forward(
                """
                y = self.fc(x)
                steps = np.arange(x.shape[1])
                return y * torch.from_numpy(np.array(steps * 2, dtype=steps.dtype))  # DYN209
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="shape-of-an-array",
            code=forward(
                """
                y = self.fc(x)
                steps = np.arange(x.shape[1])
                return y * torch.from_numpy(steps) * steps.ndim * steps.itemsize * len(steps.shape) + y.dtype.itemsize
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="bytes-of-an-array",
            code=forward(
                """
                y = x * 2
                length = len(y.detach().numpy().tobytes())  # DYN209
                return y * length
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="grid",
            code=forward(
                """
                y = self.fc(x)
                rows, columns = np.ogrid[:4, :8]  # DYN209
                return y * torch.from_numpy(rows + columns)
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                y = self.fc(x)
                rows, columns = np.arange(4)[:, None], np.arange(8)[None, :]
                return y * torch.from_numpy(rows + columns)
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="full-grid-of-a-size",
            code=forward(
                """
                grid = torch.from_numpy(np.mgrid[1:5, : x.shape[1]])  # DYN209
                return self.fc(x) * grid.sum(0)
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                grid = torch.from_numpy(np.stack(np.meshgrid(np.arange(1, 5), np.arange(x.shape[1]), indexing="ij")))
                return self.fc(x) * grid.sum(0)
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="rows-of-a-grid",
            code=forward(
                """
                rows = np.r_[0:4, 6]  # DYN209
                return self.fc(x) + torch.from_numpy(rows).sum()
                """,
                head="import numpy as np",
            ),
            declined="custom_op",
        ),
        Example(
            name="traced-numpy",
            code=forward(
                """
                array = x.detach().numpy()
                return x + torch.from_numpy(np.where(array > 0, np.sqrt(np.abs(array)), array.astype(np.float32)))
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                "return self.fc(x) * self.weights",
                head="import numpy as np",
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("weights", torch.tensor(np.interp(range(8), [0, 7], [0.0, 1.0])))
                """,
            ),
        ),
    )


def _read(event: Read) -> Iterable[Violation]:
    name = event.name.rpartition(".")[2]
    array = k.only_tensor(event.owner)
    if name in _INDEXED:
        yield Violation(
            event.node,
            f"Dynamo does not look into `{event.name.replace('numpy.', 'np.')}[...]`, so the graph ends there",
            help="use `torch.arange` and `torch.meshgrid`, or make the array in the constructor",
        )
    elif array is not None and array.array:
        yield Violation(
            event.node,
            f"Dynamo does not read `array.{name}` of NumPy, so the graph ends there",
            help="name the type that is meant, such as `np.float32`, or compute with tensors of torch",
        )
