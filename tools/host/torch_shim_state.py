"""What the parts of the torch shim share."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from musaagent.tools.recorders import FEW_ELEMENTS

uses: list[str] = []
"""What the candidate used that runs differently here, as `torch.compile`."""

ACCELERATORS = ("cuda", "musa")


class State:
    def __init__(self) -> None:
        self.installed = False
        self.hook: Callable[[Any], Any] | None = None
        self.device = torch.device("cuda", 0)
        """What Tensor.device says."""
        self.default_is_device = False
        """Whether factories that name no device make tensors of the accelerator."""
        self.uses = uses
        self.host_copies: list[str] = []
        """Tensors that were taken to the CPU while `watching_host_copies`, once they are many."""
        self._watching = False
        self._copied = 0

    @contextlib.contextmanager
    def watching_host_copies(self) -> Iterator[None]:
        self.host_copies = []
        self._copied, self._watching = 0, True
        try:
            yield
        finally:
            if not self._watching:
                self.host_copies.append("something, its record switched off,")
            self._watching = False

    def note_host_copy(self, tensor: torch.Tensor, way: str) -> None:
        self._copied += tensor.numel() if self._watching else 0
        if self._watching and self._copied > FEW_ELEMENTS:
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.host_copies.append(f"{dtype}{list(tensor.shape)} ({way})")

    def speak(self, kind: str) -> None:
        """The candidate named the device `cuda` or `musa`; tensors answer in the same word."""
        if self.device.type != kind:
            self.device = torch.device(kind, 0)


state = State()


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
