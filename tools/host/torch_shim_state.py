"""What the parts of the torch shim share."""

from collections.abc import Callable
from typing import Any

import torch

uses: list[str] = []
"""What the candidate used that runs differently here, as `torch.compile`."""

ACCELERATORS = ("cuda", "musa")


class _State:
    def __init__(self) -> None:
        self.installed = False
        self.hook: Callable[[Any], Any] | None = None
        self.device = torch.device("cuda", 0)
        """What Tensor.device says."""

    def speak(self, kind: str) -> None:
        """The candidate named the device `cuda` or `musa`; tensors answer in the same word."""
        if self.device.type != kind:
            self.device = torch.device(kind, 0)


state = _State()


def accelerator(device: Any) -> bool:
    """Whether a device argument names the device that is pretended."""
    if isinstance(device, str):
        kind = device.partition(":")[0]
    elif isinstance(device, torch.device):
        kind = device.type
    else:
        return isinstance(device, int) and not isinstance(device, bool)
    if kind not in ACCELERATORS:
        return False
    state.speak(kind)
    return True
