"""While forward runs: the values of tensors are closed to Python, but for torch's operators.

Python has many ways to a tensor's memory that call no operator (a storage's bytes, numpy by
torch's base class, TorchScript, pickle, ctypes). On a GPU none of them reaches device memory.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from musaagent.tools.host.bridge_device import DeviceMemory, host_tensors, tensors_in
from musaagent.tools.recorders import QuietMode

_VALUELESS = frozenset(
    """empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like
    new_zeros ones ones_like new_ones full full_like new_full""".split()
)
"""Their results say nothing of their arguments."""
_RESIZES = frozenset({"resize_", "resize_as_"})
"""The bridge gave their tensor other memory just before."""
_hiding: DeviceMemory | None = None
_OTHERS_KEY: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


class _Lending(QuietMode):
    """Opens what torch's operators are given while they run, and closes what they made of it.

    To be the outermost mode: what is called within its handler is the operator itself.
    """

    def __init__(self, device: DeviceMemory) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace != "aten":
            # It may be Python of the candidate's, whose own calls come here in turn.
            with self:
                return func.redispatch(_OTHERS_KEY, *args, **kwargs)
        if types:
            return func(*args, **kwargs)  # a subclass's own function is no operator of torch's
        given = list(tensors_in((args, kwargs)))
        with self._device.lent(given) as closed:
            result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if (closed and name not in _VALUELESS) or name in _RESIZES:
            for tensor in (*given, *tensors_in(result)):
                self._device.hide(tensor)
        return result


def hidden(
    device: DeviceMemory | None, tensors: Iterable[torch.Tensor]
) -> AbstractContextManager[None]:
    """Within it values of `tensors`, and what is made of them, are there for operators and kernels.

    Whatever else loads or stores them ends the process, as host code does.
    """
    if device is None:
        return nullcontext()
    for tensor in tensors:
        host_tensors.discard(tensor)  # the harness of a GPU has them there, whatever was done
        device.address(tensor)
    return _hidden(device)


@contextmanager
def _hidden(device: DeviceMemory) -> Iterator[None]:
    global _hiding
    with device.hidden(), _Lending(device):
        _hiding = device
        try:
            yield
        finally:
            _hiding = None


def follow_threads() -> None:
    """From here on operators in threads that `threading` starts are lent to as well."""
    thread: Any = threading.Thread
    start = thread._bootstrap_inner

    def bootstrap(self: threading.Thread) -> None:
        with nullcontext() if _hiding is None else _Lending(_hiding):
            start(self)

    thread._bootstrap_inner = bootstrap
