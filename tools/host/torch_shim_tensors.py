"""Tensor attributes, factories and moves between devices, as if there were an accelerator."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _device

from musaagent.tools.host import bridge
from musaagent.tools.host.bridge_device import host_tensors, lent, make_resizable, place_of
from musaagent.tools.host.torch_shim_state import State, accelerator, state

_Base: Any = torch._C.TensorBase
_CPU = torch.device("cpu")
_POISONED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted"})
_LIKE = (
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
)
_NEW = ("new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "new_tensor")
_CAPSULES = frozenset({"to_dlpack", "_to_dlpack", "_to_dlpack_versioned"})
_SHARING = frozenset({"numpy", "__array__", "__dlpack__"}) | _CAPSULES
_LEGACY = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")


def install_tensors() -> None:
    """Replaces attributes of torch and torch.Tensor; every other operation stays untouched."""
    _install_properties()
    _install_moves()
    for name in {f.__name__ for f in _device._device_constructors()} | set(_LIKE):
        original = getattr(torch, name, None)
        if original is not None:
            _replace_factory(name, original)
    for name in _NEW:
        setattr(torch.Tensor, name, _factory(getattr(_Base, name), name))
    _install_defaults()


def _install_defaults() -> None:
    """`with torch.device("cuda"):`, set_default_device and the legacy tensor types."""

    def enter(self: Any, device: Any) -> None:
        self.on_device = accelerator(device)
        self.device = _CPU if self.on_device else torch.device(device)
        self.prev_mode = None

    def enter_context(self: Any) -> Any:
        self.before = state.default_is_device
        state.default_is_device = self.on_device
        return start(self)

    def exit_context(self: Any, *details: Any) -> Any:
        state.default_is_device = self.before
        return end(self, *details)

    context: Any = _device.DeviceContext
    start, end = context.__enter__, context.__exit__
    context.__init__ = enter
    context.__enter__, context.__exit__ = enter_context, exit_context
    set_default = torch.set_default_device

    def set_default_device(device: Any) -> None:
        on_device = accelerator(device)
        set_default(_CPU if on_device else device)
        state.default_is_device = on_device

    torch.set_default_device = set_default_device
    for kind in _LEGACY:
        setattr(torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))


def _default_is_device() -> bool:
    """Whether factories that name no device make tensors of the accelerator."""
    for mode in reversed(torch.overrides._get_current_function_mode_stack()):
        if isinstance(mode, _device.DeviceContext) and getattr(mode, "on_device", False):
            return True
    return state.default_is_device


def _replace_factory(name: str, original: Any) -> None:
    wrapped = _factory(original, name)
    setattr(torch, name, wrapped)
    # TorchScript knows builtins by identity.
    builtin = torch.jit._builtins._find_builtin(original)
    if builtin is not None:
        torch.jit._builtins._register_builtin(wrapped, builtin)


def _factory(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`original` without the pretended device; uninitialised memory comes poisoned."""
    fill = name.removeprefix("new_") in _POISONED
    alike = name in _LIKE or name in _NEW

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get("device")
        on_device = asked is not None and accelerator(asked)
        if on_device:
            del kwargs["device"]
        pinned = kwargs.pop("pin_memory", None)
        result = original(*args, **kwargs)
        if fill and "out" not in kwargs:
            result = bridge.fresh(result)
        if pinned and isinstance(result, torch.Tensor):
            host_tensors.pin(result)
        elif not on_device and "out" not in kwargs and isinstance(result, torch.Tensor):
            if asked is not None or not (alike or _default_is_device()):
                host_tensors.add(result)
            elif alike:
                host_tensors.follow(args[:1], result)
        return result

    return make


def _install_properties() -> None:
    real_device = inspect.getattr_static(_Base, "device").__get__

    def device(self: Any) -> torch.device:
        real: torch.device = real_device(self)
        return state.device if real.type == "cpu" else real

    def on_device(self: Any) -> bool:
        real: torch.device = real_device(self)
        return real.type == "cpu"

    tensor: Any = torch.Tensor
    tensor.device = property(device)
    tensor.is_cuda = property(on_device)
    tensor.is_musa = property(on_device)
    tensor.is_cpu = property(lambda self: False)
    tensor.get_device = lambda self: 0
    tensor.record_stream = lambda self, stream: None
    tensor.is_pinned = lambda self, device=None: host_tensors.pinned(self)
    tensor.pin_memory = _pinned
    tensor.data_ptr = bridge.data_pointer
    storage: Any = torch.UntypedStorage
    storage.data_ptr = bridge.storage_pointer


def _install_moves() -> None:
    tensor: Any = torch.Tensor
    tensor.to = _to
    tensor.cuda = _cuda
    tensor.musa = _musa
    tensor.cpu = _cpu
    tensor.type_as = lambda self, other: self.to(other)
    torch.from_numpy = _from_numpy(torch.from_numpy)
    tensor.type = _type
    for name in ("numpy", "tolist", "__array__", "__dlpack__", "__reduce_ex__"):
        setattr(tensor, name, _to_host(name, getattr(tensor, name)))
    for place in (torch, torch._C, torch.utils.dlpack):
        for name in _CAPSULES & vars(place).keys():
            setattr(place, name, _to_host(name, getattr(place, name)))

    for name in ("resize_", "resize_as_"):
        setattr(tensor, name, _resizing(getattr(tensor, name)))

    def move(self: Any, device: Any = None) -> Any:
        return self._apply(lambda t: t.musa(device))

    module: Any = torch.nn.Module
    module.musa = move


def _to_host(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def take(self: Any, *args: Any, **kwargs: Any) -> Any:
        State.note_host_copy(state, self, f"{name}()")
        if name in _SHARING and not self.requires_grad:
            if self not in host_tensors:
                self = _on_host(self.clone())  # or its address would be that of device memory
            bridge.leave(self)
        with lent(self):
            return original(self, *args, **kwargs)

    del take.__wrapped__
    return take


def _resizing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def resize(self: Any, *args: Any, **kwargs: Any) -> Any:
        make_resizable(self)
        return original(self, *args, **kwargs)

    return resize


def _cuda(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
    state.speak("cuda")
    return _on_device(self)


def _musa(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
    state.speak("musa")
    return _on_device(self)


def _on_device(tensor: Any) -> Any:
    """Itself, or a copy of what real torch would have had in host memory."""
    if tensor not in host_tensors:
        return tensor
    moved = tensor.clone()
    host_tensors.discard(moved)  # as it was computed from host tensors alone
    return moved


def _on_host(tensor: Any) -> Any:
    host_tensors.add(tensor)
    return tensor


def _pinned(self: Any, device: Any = None) -> Any:
    """Host memory that kernels reach too: a copy, which stays where it is."""
    pinned = self.clone()
    host_tensors.pin(pinned)
    return pinned


def _from_numpy(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def from_numpy(array: Any) -> Any:
        return _on_host(original(array))

    return from_numpy


def _cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
    # The real one is a copy, which the candidate may overwrite.
    State.note_host_copy(state, self, "cpu()")
    return _on_host(self.clone())


def _to(self: Any, *args: Any, **kwargs: Any) -> Any:
    device = kwargs.pop("device", None)
    if "other" in kwargs:
        args = (kwargs.pop("other"), *args)
    if args:
        first = args[0]
        if isinstance(first, torch.Tensor):
            device = device or place_of(first)
            args = (first.dtype, *args[1:])
        elif isinstance(first, str | torch.device | int) and not isinstance(first, bool):
            device, args = first, args[1:]
        elif first is None:
            args = args[1:]
    if device is not None and not accelerator(device):
        device = torch.device(device)
        if device.type != "cpu":
            return _Base.to(self, device, *args, **kwargs)
        State.note_host_copy(state, self, "to(cpu)")
        result = _convert(self, args, kwargs)
        return _on_host(result.clone() if result is self else result)
    if device is not None and self in host_tensors:
        return _on_device(_convert(self, args, kwargs))
    return _convert(self, args, kwargs)


def _convert(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`to` without its device: what is left must begin with a dtype."""
    if not args and not kwargs:
        return self
    dtype = kwargs.pop("dtype", None)
    if args and (args[0] is None or isinstance(args[0], torch.dtype)):
        dtype, args = args[0] or dtype, args[1:]
    return _Base.to(self, dtype or self.dtype, *args, **kwargs)


def _type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    if dtype is None:
        text: str = _Base.type(self)
        return text.replace("torch.", f"torch.{state.device.type}.")
    if isinstance(dtype, str):
        dtype = dtype.replace("torch.cuda.", "torch.").replace("torch.musa.", "torch.")
    return _Base.type(self, dtype, non_blocking, **kwargs)
