"""The accelerator of this process: torch.cuda, or torch.musa, whose interface is the same.

A worker process chooses once, before it touches a card. Nothing here imports torch at import.
"""

import os
from typing import Any, Literal

Name = Literal["cuda", "musa"]
_VISIBLE: dict[Name, str] = {"cuda": "CUDA_VISIBLE_DEVICES", "musa": "MUSA_VISIBLE_DEVICES"}
_name: Name = "cuda"


def choose(name: Name) -> None:
    """All later calls in this process are for that kind of card."""
    global _name
    _name = name


def device() -> Name:
    """What torch calls the device: `cuda` or `musa`."""
    return _name


def api() -> Any:
    """torch.cuda or torch.musa; the latter comes with torch_musa."""
    import torch

    if _name == "musa" and not hasattr(torch, "musa"):
        import torch_musa  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    return getattr(torch, _name)


def see_only(identity: str) -> None:
    """Only this card is seen, as device 0; comes before the card is used. '' means none."""
    os.environ[_VISIBLE[_name]] = identity
    if _name == "cuda":
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def start() -> None:
    """Bring torch's part up, so that what it costs is not the candidate's.

    A context on the card comes with the first tensor, for which the worker has a share of the card.
    """
    module = api()
    if hasattr(module, "init"):
        module.init()


def set_tf32(allowed: bool) -> None:
    """The precision of float32 products in the vendor's libraries."""
    import torch

    backends: Any = torch.backends
    if _name == "musa":
        backends.mudnn.allow_tf32 = allowed
        return
    backends.cuda.matmul.allow_tf32 = allowed
    backends.cudnn.allow_tf32 = allowed


def profiler_activity() -> Any:
    """torch.profiler's activity that records kernels: MUSA's own name where torch has it."""
    from torch.profiler import ProfilerActivity

    if _name == "cuda":
        return ProfilerActivity.CUDA
    activity: Any = ProfilerActivity
    return getattr(activity, "MUSA", None) or activity.PrivateUse1
