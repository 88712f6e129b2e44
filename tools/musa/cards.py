"""What Moore Threads' cards are to a kernel, by architecture.

Sources: warp sizes and the lack of bfloat16 on mp_21 are read in torch_musa (`WARP_SIZE` by
`__MUSA_ARCH__` in csrc/extension/common/utils.muh, `is_bf16_supported`); the numbers of mp_31 are
those that `musaInfo` prints of an S5000 in Moore Threads' installation guide for SDK 5.2. The
28 KiB of shared memory on older cards stand only in a comment of torch_musa
(csrc/aten/ops/musa/Bucketize.mu), so going over them is no proof of a fault. Bandwidths are of the
vendor's data sheets. Where no public number was found the field is None, and nothing is checked
against it.
"""

from dataclasses import dataclass
from typing import Literal

Arch = Literal["mp_21", "mp_22", "mp_31"]


@dataclass(frozen=True)
class Card:
    """One architecture."""

    arch: Arch
    names: tuple[str, ...]
    """Product names, as `mthreads-gmi` and torch.musa.get_device_name say them."""
    capability: str
    warp_size: Literal[32, 128]
    bf16: bool
    fp8: bool
    shared_bytes: int
    """Of one block."""
    shared_documented: bool
    constant_bytes: int | None
    bytes_per_s: float | None
    """Memory bandwidth at best."""

    @property
    def macro(self) -> int:
        """The value of `__MUSA_ARCH__`: 220 for mp_22."""
        return int(self.arch.removeprefix("mp_")) * 10


_MP_21 = ("MTT S80", "MTT S3000")
CARDS: dict[str, Card] = {
    card.arch: card
    for card in (
        Card("mp_21", _MP_21, "2.1", 128, False, False, 28 << 10, False, None, 448e9),
        Card("mp_22", ("MTT S4000",), "2.2", 128, True, False, 28 << 10, False, None, 768e9),
        Card("mp_31", ("MTT S5000",), "3.1", 32, True, True, 192 << 10, True, 8192, 1.6e12),
    )
}
ARCHS: tuple[Arch, ...] = ("mp_21", "mp_22", "mp_31")
DEFAULT_ARCH: Arch = "mp_22"
"""Where neither a card nor the user says which: the wider warp is the harder one."""


def card_of(arch: str) -> Card:
    """Raises KeyError for an architecture that is not in the table."""
    return CARDS[arch]


def card_named(name: str) -> Card | None:
    """By a product name, as `MTT S4000`; None for one that is not known."""
    words = name.upper().split()
    for card in CARDS.values():
        if any(known.rpartition(" ")[2] in words for known in card.names):
            return card
    return None


def arch_of_capability(capability: str) -> str:
    """`3.1`, `31` or `mp_31` as `mp_31`."""
    return "mp_" + capability.removeprefix("mp_").replace(".", "")
