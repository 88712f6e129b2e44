"""Tensors of a worker on its card: put there, filled, and known again."""

from typing import Any

from musaagent.tools.cuda import device_api
from musaagent.tools.watch import detached, digest

_SMALL_BYTES = 1 << 20
"""Brought to the CPU instead: the kernels of `mixed_sum` take a process 0.07 s to load."""
_WORDS = 1 << 22
"""So many words of 8 bytes are summed up at once."""
_MIXERS = (-0x61C8864680B583EB, -0x3D4D51C2D82B14B1)
"""Odd, with bits all over."""


def put(value: Any) -> Any:
    """A tensor or a module on the card."""
    return value.cuda() if device_api.device() == "cuda" else value.to(device_api.device())


def poison_on_card(tensor: Any) -> None:
    """For what Python or torch's own C++ allocates; the bridge sees the rest."""
    from musaagent.tools.cuda import bridge

    if tensor.device.type == device_api.device():
        bridge.poison(tensor)


def raw_bytes(tensor: Any) -> Any:
    """The values as a flat byte tensor, which compares NaNs too."""
    import torch

    return detached(tensor).contiguous().view(-1).view(torch.uint8)


def device_digest(tensor: Any) -> str:
    """Of the values, NaNs included, without bringing them to the CPU."""
    raw = raw_bytes(tensor)
    small = raw.device.type != "cuda" or raw.numel() <= _SMALL_BYTES
    return digest(raw.cpu()) if small else mixed_sum(raw)


def noted(tensor: Any) -> Any:
    """A copy of the bytes, for `same`."""
    raw = raw_bytes(tensor)
    return raw.to("cpu", copy=True) if raw.numel() <= _SMALL_BYTES else raw.clone()


def same(tensor: Any, before: Any) -> bool:
    import torch

    return torch.equal(raw_bytes(tensor).to(before.device), before)


def mixed_sum(raw: Any) -> str:
    """Of bytes, on their own device: each word of 8 is mixed with its place, and all are added."""
    import torch

    total = torch.zeros((), dtype=torch.int64, device=raw.device)
    place = torch.arange(_WORDS, dtype=torch.int64, device=raw.device) * 2 + 1
    for part in raw.split(8 * _WORDS):
        padded = part.new_zeros(-(-part.numel() // 8) * 8)
        padded[: part.numel()] = part
        words = padded.view(torch.int64)
        mixed = (words ^ (words >> 31)) * _MIXERS[0] + place[: words.numel()]
        mixed = (mixed ^ (mixed >> 29)) * _MIXERS[1] * place[: words.numel()]
        total = total * _MIXERS[0] + (mixed ^ (mixed >> 32)).sum()
    return f"{raw.numel()} {int(total)}"
