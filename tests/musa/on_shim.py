"""Run by test_workers.py: the card's code paths over the host target's stand-in for torch.musa.

That stand-in is torch on the CPU with MUSA's names, so it shows that the calls fit torch_musa's
interface as far as the stand-in has it, and nothing about a card.
"""

import json
import sys
from typing import Any

import torch

from musaagent.tools.cuda import device_api
from musaagent.tools.host import bridge, torch_shim
from musaagent.tools.host.builder import HostBuilder

OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose3d(4, 4, 3, groups=2)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(1, 4, 3, 4, 5)]


def get_init_inputs():
    return []
"""


def main() -> None:
    bridge.load_runtime(HostBuilder().runtime_library())
    bridge.configure(order=0, seed=0, threads=1, checked=False, warp_size=128)
    torch_shim.install(lambda request: None)
    device_api.choose("musa")
    device_api.see_only("")
    device_api.start()
    found: dict[str, Any] = {"device": str(torch.zeros(1).to(device_api.device()).device)}
    found |= references()
    found |= clock()
    print(json.dumps(found))


def references() -> dict[str, Any]:
    from musaagent.tools.musa.worker_reference import MusaReferenceModel, MusaReferenceWorker

    class Wrong(MusaReferenceModel):
        """A card whose grouped transposed convolution is wrong in one group."""

        def on_card(self, inputs: Any, seed: int) -> Any:
            tree, outputs, buffers = super().on_card(inputs, seed)
            outputs[0][:, 2:] *= 1.01
            return tree, outputs, buffers

    told = {}
    for name, kind in (("right", MusaReferenceModel), ("wrong", Wrong)):
        model = kind(OP, name="op")
        model.construct(1)
        expected = model.expected(model.inputs(2), 3)
        with torch.no_grad():
            oracle = model.module(*model.inputs(2))
        told[name] = expected.reference
        told[f"{name} is the CPU's"] = torch.equal(expected.native[0], oracle)
    worker = MusaReferenceWorker()
    for name in ("compile", "graph"):
        try:
            worker._make(name)
        except RuntimeError as error:
            told[name] = str(error)
    return told


def clock() -> dict[str, Any]:
    from musaagent.tools.cuda.clock import Flusher, bind, host_seconds, measure

    bind()
    # What a candidate replaces later is not what times are taken by.
    torch.musa.Event = torch.musa.synchronize = None  # type: ignore[attr-defined]
    buffer = torch.zeros(8)
    sets = [[torch.ones(8)], [torch.full((8,), 2.0)]]
    kept = measure(
        lambda: buffer * 2,
        [buffer],
        sets,
        count=2,
        first=1,
        host_s=host_seconds(lambda: buffer * 2),
        flusher=Flusher(),
        keep=1,
    )
    return {"times": len(kept["stream_ms"]), "kept": kept["kept"].tolist()[:1]}


if __name__ == "__main__":
    sys.exit(main())
