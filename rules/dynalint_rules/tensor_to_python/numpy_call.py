"""DYN209: a NumPy function that Dynamo cannot trace."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Project, Read, Rule, Violation, k, leads_to_raise
from dynalint_rules._code.settings import captures_scalars

# These are missing from `torch._numpy`. All of them were called with torch 2.13. DYN410 covers files, and DYN408 covers
# random numbers.
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
    "matrix_transpose unstack ndenumerate ndindex"
).split()
# Dynamo traces these as torch operations that read the data of their arguments, even of lists of numbers.
_READING = frozenset(f"numpy.{name}" for name in ("allclose", "array_equal", "corrcoef", "cov", "pad"))
_LINALG = "cross diagonal matmul matrix_norm matrix_transpose outer svdvals tensordot trace vecdot vector_norm".split()
_METHODS = ("tobytes",)
_ATTRIBUTES = ("dtype", "base")
# Objects that are indexed rather than called.
_INDEXED = ("c_", "mgrid", "ogrid", "r_", "s_")


class UntracedNumpy(Rule):
    code = "DYN209"
    name = "untraced-numpy"
    summary = "A NumPy function that Dynamo does not support breaks the graph"
    gb = ("GB0033", "GB0294", "GB0158", "GB0157", "GB0208", "GB0008")
    events = (Call, Read)
    calls = frozenset(
        {
            *(f"numpy.{name}" for name in _FUNCTIONS),
            *_READING,
            *(f"numpy.linalg.{name}" for name in _LINALG),
            *(f"Tensor.{name}" for name in (*_METHODS, *_ATTRIBUTES)),
            *(f"numpy.{name}" for name in _INDEXED),
        }
    )
    refusal = (
        "the closest function in torch gives different results, mostly in precision; use tensor operations, or wrap "
        "the call with `torch.library.custom_op`"
    )

    def check(self, event: Call | Read, project: Project) -> Iterable[Violation]:
        """Flag calls to these functions, and to methods whose object is known to be an array."""
        if leads_to_raise(event, project):
            return
        if isinstance(event, Read):
            yield from _read(event)
            return
        if event.callee in _READING and captures_scalars(project, event.function):
            return
        name = event.callee.replace("numpy.", "np.")
        if event.callee.startswith("Tensor."):
            array = k.only_tensor(event.receiver) if event.receiver is not None else None
            if array is None or not array.array:
                return
            name = f"array.{event.callee.rpartition('.')[2]}"
        yield Violation(
            event.node,
            f"Dynamo does not support `{name}()`, so the graph breaks here",
            help="use a torch operation, or wrap the call with `torch.library.custom_op`",
        )


def _read(event: Read) -> Iterable[Violation]:
    name = event.name.rpartition(".")[2]
    array = k.only_tensor(event.owner)
    if name in _INDEXED:
        yield Violation(
            event.node,
            f"Dynamo does not trace `{event.name.replace('numpy.', 'np.')}[...]`, so the graph breaks here",
            help="use `torch.arange` and `torch.meshgrid`, or create the array in the constructor",
        )
    elif array is not None and array.array:
        yield Violation(
            event.node,
            f"Dynamo does not support the `{name}` attribute of NumPy arrays, so the graph breaks here",
            help="write out the dtype, such as `np.float32`, or use torch tensors instead",
        )
