"""What cards can do at best, by their vendor's data sheets: the floor under every time."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    bytes_per_s: float
    flops_fp32: float
    flops_tensor: float
    """Dense bf16 on the matrix units."""


# Words of the card's name, more special ones first.
_CARDS = (
    ("GH200", Peak(4.9e12, 67e12, 990e12)),
    ("H200", Peak(4.8e12, 67e12, 990e12)),
    ("H100 PCIe", Peak(2.0e12, 51e12, 756e12)),
    ("H100", Peak(3.35e12, 67e12, 990e12)),
    ("B200", Peak(8.0e12, 80e12, 2250e12)),
    ("A100", Peak(2.04e12, 19.5e12, 312e12)),
    ("L40S", Peak(0.864e12, 91.6e12, 362e12)),
    ("L4", Peak(0.3e12, 30.3e12, 121e12)),
    ("A10", Peak(0.6e12, 31.2e12, 125e12)),
    ("V100", Peak(0.9e12, 15.7e12, 125e12)),
    ("T4", Peak(0.32e12, 8.1e12, 65e12)),
    ("RTX 5090", Peak(1.79e12, 104e12, 209e12)),
    ("RTX 4090", Peak(1.01e12, 82.6e12, 165e12)),
    ("RTX 3090", Peak(0.936e12, 35.6e12, 71e12)),
)


def peak_of(name: str) -> Peak | None:
    """None for a card that is not in the table."""
    return next((peak for word, peak in _CARDS if word in name), None)


def floor_ms(name: str, least_bytes: int, flops: int) -> float | None:
    """No kernel is faster, whatever it does: bytes over bandwidth, operations over the top rate."""
    peak = peak_of(name)
    if peak is None:
        return None
    return 1e3 * max(least_bytes / peak.bytes_per_s, flops / peak.flops_tensor)
