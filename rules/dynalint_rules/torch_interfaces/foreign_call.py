"""DYN615: a C function that is not part of torch or NumPy."""

from __future__ import annotations

from dynalint.rulekit import Call, Rule

# All of these were observed to break the graph with torch 2.13.
_CALLS = {
    "ctypes": "c_int c_long c_float c_double c_char_p c_void_p byref cast sizeof CDLL",
    "zlib": "crc32 adler32 compress decompress",
    "struct": "pack unpack calcsize",
    "base64": "b64encode b64decode",
    "binascii": "crc32 hexlify unhexlify",
    "PIL.Image": "fromarray new",
    "sklearn.utils": "murmurhash3_32",
    "pywt": "Wavelet dwt_coeff_len dwt_max_level wavedec",
    "scipy.fft": "dct dst fft fftn idct idst ifft ifftn irfft next_fast_len rfft",
    "scipy.fftpack": "dct fft idct ifft irfft next_fast_len rfft",
    "scipy.integrate": "simpson trapezoid",
    "scipy.interpolate": "CubicSpline PchipInterpolator RegularGridInterpolator UnivariateSpline griddata interp1d "
    "make_interp_spline splprep splrep",
    "scipy.linalg": "block_diag circulant det eig eigh eigvals eigvalsh expm inv orth pinv solve solve_triangular "
    "sqrtm svd toeplitz",
    "scipy.ndimage": "binary_dilation binary_erosion binary_fill_holes convolve distance_transform_edt gaussian_filter "
    "gaussian_filter1d grey_dilation label map_coordinates maximum_filter median_filter rotate shift zoom",
    "scipy.optimize": "linear_sum_assignment minimize nnls",
    "scipy.signal": "butter convolve2d fftconvolve find_peaks firwin get_window lfilter resample",
    "scipy.sparse": "coo_matrix csc_matrix csr_matrix diags eye lil_matrix",
    "scipy.spatial": "ConvexHull Delaunay KDTree cKDTree distance_matrix",
    "scipy.spatial.distance": "cdist cosine euclidean pdist squareform",
    "scipy.spatial.transform.Rotation": "from_euler from_matrix from_quat from_rotvec",
    "scipy.special": "binom digamma entr erf erfc erfinv exp1 exp2 expi expit expm1 gamma gammaln i0 i0e i1 i1e iv ive "
    "jv k0 k1 log1p log_ndtr log_softmax loggamma logit logsumexp ndtr ndtri psi",
    "scipy.stats": "norm.cdf norm.logpdf norm.pdf norm.ppf norm.rvs truncnorm.rvs",
}


class ForeignCall(Rule):
    code = "DYN615"
    name = "foreign-call"
    summary = "Calling a C function that Dynamo does not support breaks the graph"
    gb = ("GB0007", "GB0156", "GB0059", "GB0147")
    events = (Call,)
    calls = frozenset(
        {"ctypes.CDLL.*", "cv2.*", *(f"{module}.{name}" for module, names in _CALLS.items() for name in names.split())}
    )
    message = "`{callee}()` runs C code that Dynamo does not support, so the graph breaks here"
    help = "compute the result earlier, or wrap the call with `torch.library.custom_op`"
    refusal = (
        "where to compute the result depends on the arguments; compute it in `__init__`, or wrap the call with "
        "`torch.library.custom_op`"
    )
