"""Large outputs are judged by some of their elements, and by sizes that are taken of the whole."""

from typing import Any

MOST_RANDOM = 1 << 21
ENDS = 1 << 14
_CHUNK = 1 << 26


def pick(tensor: Any, indices: Any) -> Any:
    """The elements at flat (row-major) `indices`, whatever the strides."""
    import torch

    indices = indices.to(tensor.device)
    if tensor.is_contiguous():
        return tensor.detach().view(-1)[indices]
    return tensor.detach()[torch.unravel_index(indices, tensor.shape)]


def whole_size(native: Any, exact: Any | None) -> tuple[float, float]:
    """Root mean square of the expected output, and the reference's own largest error.

    As `tools.compare` takes them of a whole output: the float64 values where both are finite, the
    native ones elsewhere; infinities and NaN are left out.
    """
    import torch

    count, own, peak = 0, 0.0, 0.0
    parts: list[tuple[float, float]] = []
    flat, wide = native.detach().reshape(-1), None if exact is None else exact.reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        plain = flat[start : start + _CHUNK]
        plain = plain.to(torch.complex128 if plain.is_complex() else torch.float64)
        finite, truth = plain.isfinite(), plain
        if wide is not None:
            better = wide[start : start + _CHUNK]
            truth = torch.where(finite & better.isfinite(), better, plain)
        count += int(finite.sum())
        size = torch.where(finite, truth, 0).abs()
        own = max(own, float(torch.where(finite, plain - truth, 0).abs().max()))
        top = float(size.max())
        peak = max(peak, top)
        # Scaled, so that squares do not overflow near the end of the range.
        parts.append((top, float((size / top).square().sum()) if top > 0 else 0.0))
    if not count or peak == 0:
        return 0.0, own
    total = sum((top / peak) ** 2 * part for top, part in parts)
    return peak * float((total / count) ** 0.5), own
