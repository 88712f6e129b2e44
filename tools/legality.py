"""Which ATen operators a candidate's forward may call: bookkeeping, never the work itself.

The base is the operator allow-list of MusaCoder's verifier (arXiv 2606.04847, appendix J, as read
by an independent reproduction), with what newer torch versions dispatch for the same Python calls,
and operators that only make a view.
"""

from collections.abc import Collection, Iterable

_PAPER = frozenset(
    """_assert_async _assert_scalar _assert_tensor_metadata _cast_Byte _cast_Char _cast_Double
    _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _local_scalar_dense alias allclose
    arange as_strided broadcast_to clone contiguous copy_ empty empty_like equal expand flatten
    full item ones permute rand randint randn reshape select slice squeeze stride transpose
    unsqueeze view zeros""".split()
)

_NEWER_TORCH = frozenset(
    """_to_copy detach detach_ empty_strided fill_ new_empty new_empty_strided new_full new_ones
    new_zeros to zero_ zeros_like ones_like full_like lift_fresh lift_fresh_copy scalar_tensor
    is_same_size _unsafe_view _reshape_alias resize_ set_ requires_grad_ is_pinned sym_size
    sym_stride sym_numel result_type can_cast pin_memory _pin_memory record_stream""".split()
)

_VIEWS = frozenset(
    """t mT mH adjoint chunk diagonal expand_as movedim moveaxis narrow numpy_T real imag
    reshape_as split split_with_sizes swapaxes swapdims tensor_split unbind unflatten unfold
    unsafe_chunk unsafe_split unsafe_split_with_sizes view_as view_as_complex view_as_real
    squeeze_ unsqueeze_ transpose_ t_ as_strided_ resolve_conj resolve_neg positive
    atleast_1d atleast_2d atleast_3d""".split()
)

ALLOWED = _PAPER | _NEWER_TORCH | _VIEWS


def base_name(operator: str) -> str:
    """`aten::add.Tensor` or `aten.add.Tensor` -> `add`."""
    name = operator.replace("::", ".").removeprefix("aten.")
    return name.split(".", 1)[0]


VENDOR_LIBRARIES = "vendor-libs"
"""What `--allow` takes: kernels of cuBLAS, cuDNN and their kind may do the work."""

LIBRARY_PREFIX = "library.kernel "
"""How a vendor library's kernel stands among the operators that ran."""


def illegal_operators(operators: Iterable[str], allow: Collection[str] = ()) -> tuple[str, ...]:
    """The operators that do work a kernel should do, each once, in the order first seen.

    Exploits 1 to 7 and 10. `allow` with VENDOR_LIBRARIES lets library kernels pass, nothing else.
    """
    seen: dict[str, str] = {}
    for operator in operators:
        if operator.startswith(LIBRARY_PREFIX) and VENDOR_LIBRARIES in allow:
            continue
        foreign = "." in operator and not operator.startswith(("aten.", "aten::"))
        if foreign or base_name(operator) not in ALLOWED:
            # The two records of a run write one operator in two ways.
            seen.setdefault(operator if foreign else base_name(operator), operator)
    return tuple(seen.values())
