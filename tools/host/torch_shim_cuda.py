"""torch.cuda and torch.musa of one pretended device, whose streams run in order."""

import contextlib
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from musaagent.tools.host import bridge
from musaagent.tools.host.torch_shim_state import ACCELERATORS, state, uses

DEVICE_NAME = "musaagent host target"
CAPABILITY = (9, 0)


class Stream:
    """Work is done by the time it is submitted, so that every stream is always idle."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.priority = priority
        self.cuda_stream = self.musa_stream = 0
        self.stream_id = self.device_index = 0

    @property
    def device(self) -> torch.device:
        return state.device

    def synchronize(self) -> None:
        bridge.synchronize()

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def record_event(self, event: "Event | None" = None) -> "Event":
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *details: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return 0


class Event:
    """A wall-clock mark."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.enable_timing = enable_timing
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        bridge.synchronize()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds."""
        if self._at is None or end_event._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1e3


class DeviceProperties(types.SimpleNamespace):
    """The limits that the runtime checks launches against."""

    def __init__(self) -> None:
        super().__init__(
            name=DEVICE_NAME,
            major=CAPABILITY[0],
            minor=CAPABILITY[1],
            total_memory=16 << 30,
            multi_processor_count=132,
            warp_size=32,
            max_threads_per_block=1024,
            max_threads_per_multi_processor=2048,
            shared_memory_per_block=48 << 10,
            shared_memory_per_block_optin=227 << 10,
            shared_memory_per_multiprocessor=228 << 10,
            regs_per_multiprocessor=65536,
            L2_cache_size=50 << 20,
            is_integrated=0,
            is_multi_gpu_board=0,
            gcnArchName="",
        )


@contextlib.contextmanager
def _stream_context(stream: Any) -> Iterator[None]:
    yield


class _DeviceContext:
    """torch.cuda.device(0) and device_of(x)."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None: ...

    def __exit__(self, *details: Any) -> None: ...


def _refuse(what: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        uses.append(what)
        raise RuntimeError(f"{what} is not supported on the host target: it cannot capture graphs")

    return refuse


class CUDAGraph:
    """Refused: a replay would have to run kernels that were only recorded."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "CUDAGraph":
        refused: CUDAGraph = _refuse("torch.cuda.CUDAGraph")()
        return refused


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


def _true(*args: Any, **kwargs: Any) -> bool:
    return True


def _false(*args: Any, **kwargs: Any) -> bool:
    return False


def _seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


_STREAM = Stream()
_NO_EFFECT = (
    "init",
    "_lazy_init",
    "set_device",
    "set_stream",
    "empty_cache",
    "ipc_collect",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_accumulated_memory_stats",
    "set_per_process_memory_fraction",
)
_ZEROS = (
    "current_device",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "utilization",
)
_YES = ("is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported", "_is_compiled")

FUNCTIONS: dict[str, Any] = {
    **dict.fromkeys(_NO_EFFECT, _nothing),
    **dict.fromkeys(_ZEROS, _zero),
    **dict.fromkeys(_YES, _true),
    "is_current_stream_capturing": _false,
    "device_count": lambda: 1,
    "synchronize": lambda device=None: bridge.synchronize(),
    "get_device_name": lambda device=None: DEVICE_NAME,
    "get_device_capability": lambda device=None: CAPABILITY,
    "get_device_properties": lambda device=None: DeviceProperties(),
    "get_arch_list": lambda: ["sm_90"],
    "mem_get_info": lambda device=None: (8 << 30, 16 << 30),
    "memory_stats": lambda device=None: {},
    "memory_summary": lambda *args, **kwargs: "",
    "current_stream": lambda device=None: _STREAM,
    "default_stream": lambda device=None: _STREAM,
    "stream": _stream_context,
    "StreamContext": _stream_context,
    "Stream": Stream,
    "ExternalStream": Stream,
    "Event": Event,
    "device": _DeviceContext,
    "device_of": _DeviceContext,
    "CUDAGraph": CUDAGraph,
    "graph": _refuse("torch.cuda.graph"),
    "make_graphed_callables": _refuse("torch.cuda.make_graphed_callables"),
    "manual_seed": _seed_all,
    "manual_seed_all": _seed_all,
    "seed": torch.seed,
    "seed_all": torch.seed,
    "initial_seed": torch.initial_seed,
    "get_rng_state": lambda device=None: torch.get_rng_state(),
    "set_rng_state": lambda new_state, device=None: torch.set_rng_state(new_state),
}


def install_device_module() -> None:
    """Replaces torch.cuda's functions, and makes torch.musa of the same."""
    cuda: Any = torch.cuda
    for name, value in FUNCTIONS.items():
        setattr(cuda, name, value)
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, _nothing)
    cuda.nvtx.range = lambda *args, **kwargs: contextlib.nullcontext()
    musa: Any = types.ModuleType("torch.musa")
    for name, value in FUNCTIONS.items():
        setattr(musa, name, value)
    musa.MUSAGraph = CUDAGraph
    musa.amp = cuda.amp
    musa.nvtx = cuda.nvtx
    musa._is_in_bad_fork = _false
    torch._register_device_module("musa", musa)
    # Recurrent modules would pack their weights for cuDNN.
    torch.backends.cudnn.is_acceptable = _false
    _install_generator()
    _install_autocast()


def _install_generator() -> None:
    real: Any = torch._C.Generator

    class Generator(real):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return real.__new__(cls, device="cpu")

        @property
        def device(self) -> torch.device:
            return state.device

    torch.Generator = Generator  # type: ignore[misc]


def _install_autocast() -> None:
    """Autocast for the pretended device does nothing: results keep the tensors' own dtype."""
    real: Any = torch.amp.autocast_mode.autocast

    class autocast(real):  # type: ignore[misc]
        def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
            if device_type in ACCELERATORS:
                uses.append("torch.autocast")
                super().__init__("cpu", enabled=False)
            else:
                super().__init__(device_type, *args, **kwargs)

    class cuda_autocast(autocast):
        def __init__(self, enabled: bool = True, *args: Any, **kwargs: Any) -> None:
            super().__init__("cuda")

    for module in (torch, torch.amp, torch.amp.autocast_mode):
        module.autocast = autocast  # type: ignore[attr-defined]
    torch.cuda.amp.autocast = cuda_autocast  # type: ignore[misc]
