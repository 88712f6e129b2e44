"""What would call the candidate's code where nobody records it (exploits 28, 33 and 38).

Interpreters and torch have places to hang a function into: what they held before the candidate was
imported is compared with what they hold now.
"""

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.utils._device import DeviceContext

_OUR_OPERATORS = (
    *("as_strided", "clone", "contiguous", "copy_", "detach", "equal", "resolve_conj"),
    *("resolve_neg", "view", "view.dtype", "_to_copy"),
)
"""What the worker itself calls on tensors of the candidate."""
_OURS = str(Path(__file__).resolve().parent)


def in_force() -> dict[str, Any]:
    """By name what is hung in now; a value of another identity or text is another function."""
    found: dict[str, Any] = {
        "sys.settrace": sys.gettrace(),
        "sys.setprofile": sys.getprofile(),
        "threading.settrace": threading.gettrace(),
        "threading.setprofile": threading.getprofile(),
        "gc.callbacks": tuple(gc.callbacks),
        "torch's stack of modes": tuple(_modes()),
        "torch.library of aten": _overridden(),
    }
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    if monitoring is not None:
        found["sys.monitoring"] = tuple(monitoring.get_tool(tool) for tool in range(6))
    for number in signal.valid_signals():
        found[f"the handler of signal {int(number)}"] = signal.getsignal(number)
    return found


def _modes() -> Iterable[Any]:
    """Modes that stand between Python and torch, but those of `torch.set_default_device`."""
    core: Any = torch._C
    for index in range(core._len_torch_function_stack()):
        mode = core._get_function_stack_at(index)
        if type(mode) is not DeviceContext:
            yield mode
    for index in range(core._len_torch_dispatch_stack()):
        yield core._get_dispatch_stack_at(index)


def _overridden() -> tuple[str, ...]:
    """Operators of torch that got another implementation, and the text of those that we use.

    Parts of torch that are imported late bring theirs for the key Meta, which computes no values.
    """
    core: Any = torch._C
    given: Iterable[str] = getattr(torch.library, "_impls", ())
    found = sorted(name for name in given if name.startswith("aten/") and "/Meta" not in name)
    for name in _OUR_OPERATORS:
        lines = core._dispatch_dump(f"aten::{name}").splitlines()
        found += [line for line in lines if not line.startswith("Meta")]
    return tuple(found)


def shadows(inputs: Iterable[Any], outputs: Iterable[Any]) -> list[str]:
    """Attributes of tensors that stand before torch's own; inputs that got another class."""
    plain = (torch.Tensor, torch.nn.Parameter)
    inputs = list(inputs)
    found = ["Tensor.__class__" for tensor in inputs if type(tensor) not in plain]
    for tensor in (*inputs, *outputs):
        if type(tensor) in plain:
            found += [f"Tensor.{k}" for k in vars(tensor) if hasattr(torch.Tensor, k)]
    return sorted(set(found))


def freeze_what_is_there() -> None:
    """Rubbish is collected where the worker asks for it: what is collected can call code of its own
    (`__del__`, weak references), which is not to run between a call's inputs and its record.
    """
    gc.collect()
    gc.freeze()


def hold_code() -> None:
    """From here on our functions stay what they are and no audit hook is added, in this process.

    An audit hook cannot be taken away again. It runs before those that are added later, and what
    it raises for `sys.addaudithook` keeps the new one out without a word.
    """
    sys.addaudithook(_holder())


def _holder() -> Callable[[str, tuple[Any, ...]], None]:
    def hold(  # type: ignore[no-untyped-def]
        event: str,
        args: tuple[Any, ...],
        # Defaults, as names of a module can be exchanged.
        rewrites=("__code__", "__defaults__", "__kwdefaults__"),
        ours=_OURS,
        error=RuntimeError,
    ) -> None:
        if event == "sys.addaudithook":
            raise error("no audit hook can be added here")
        rewritten = event == "object.__setattr__" and args[1] in rewrites
        if rewritten and args[0].__code__.co_filename.startswith(ours):
            raise error(f"{args[1]} of the verifier's functions cannot be changed")

    return hold
