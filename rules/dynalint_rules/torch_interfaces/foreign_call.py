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
    # The ufuncs, and functions that call them with an array.
    "scipy.special": "agm airy airye bdtr bdtrc bdtri bdtrik bdtrin bei beip ber berp besselpoly beta betainc betaincc "
    "betainccinv betaincinv betaln binom boxcox boxcox1p btdtria btdtrib cbrt chdtr chdtrc chdtri chdtriv "
    "chndtr chndtridf chndtrinc chndtrix cosdg cosm1 cotdg dawsn digamma ellipe ellipeinc ellipj ellipk "
    "ellipkinc ellipkm1 elliprc elliprd elliprf elliprg elliprj entr erf erfc erfcinv erfcx erfi erfinv "
    "eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre eval_hermite "
    "eval_hermitenorm eval_jacobi eval_laguerre eval_legendre eval_sh_chebyt eval_sh_chebyu eval_sh_jacobi "
    "eval_sh_legendre exp1 exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc fdtri fdtridfd fresnel gamma "
    "gammainc gammaincc gammainccinv gammaincinv gammaln gammasgn gdtr gdtrc gdtria gdtrib gdtrix hankel1 "
    "hankel1e hankel2 hankel2e huber hyp0f1 hyp1f1 hyp2f1 hyperu i0 i0e i1 i1e inv_boxcox inv_boxcox1p it2i0k0 "
    "it2j0y0 it2struve0 itairy iti0k0 itj0y0 itmodstruve0 itstruve0 iv ive j0 j1 jn jv jve k0 k0e k1 k1e kei "
    "keip kelvin ker kerp kl_div kn kolmogi kolmogorov kv kve log1p log_expit log_ndtr log_softmax "
    "log_wright_bessel loggamma logit logsumexp lpmv mathieu_a mathieu_b mathieu_cem mathieu_modcem1 "
    "mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_sem modfresnelm modfresnelp modstruve nbdtr nbdtrc "
    "nbdtri nbdtrik nbdtrin ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc nctdtr nctdtridf nctdtrinc nctdtrit "
    "ndtr ndtri ndtri_exp nrdtrimn nrdtrisd obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 "
    "obl_rad2_cv owens_t pbdv pbvv pbwa pdtr pdtrc pdtri pdtrik poch powm1 pro_ang1 pro_ang1_cv pro_cv pro_rad1 "
    "pro_rad1_cv pro_rad2 pro_rad2_cv pseudo_huber psi radian rel_entr rgamma round shichi sici sindg smirnov "
    "smirnovi spence stdtr stdtridf stdtrit struve tandg tklmbda voigt_profile wofz wright_bessel wrightomega "
    "xlog1py xlogy y0 y1 yn yv yve zetac",
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
