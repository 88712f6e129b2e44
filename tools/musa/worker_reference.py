"""The jailed process that runs the task's own module: on the CPU as judge, and on the card.

torch_musa's own answer can be wrong (grouped ConvTranspose3d was, on an S4000). So the expected
values are the CPU's, in float64 where the task runs in it; the card's own answer is compared with
them once a task, and a dispute is told in the verdict. Where the CPU takes too long and the two
agreed, the card answers from then on. Times are taken of the card's eager run.
"""

import contextlib
import time
from dataclasses import replace
from typing import Any

from musaagent.tools import trees
from musaagent.tools.arrays import value_from_wire
from musaagent.tools.compare import Value, compare_all
from musaagent.tools.cuda import device_api
from musaagent.tools.cuda.on_card import put
from musaagent.tools.cuda.worker_reference import CudaReferenceWorker, Rooms, on_gpu
from musaagent.tools.reference import Expected, ReferenceModel, call_arguments
from musaagent.tools.tolerance import ToleranceRule
from musaagent.tools.wire import Channel, encode_tensors
from musaagent.tools.worker_reference import serve

EAGER_ONLY = "on MUSA only eager is timed: torch.compile and graphs are not used"
_LONGEST_CPU_S = 60.0


def main(channel: Channel) -> None:
    """Entry point for the fork server."""
    device_api.choose("musa")
    serve(channel, Rooms(MusaReferenceWorker))


class MusaReferenceModel(ReferenceModel):
    """Expected values by the CPU, and what the card makes of the same task."""

    dispute: str | None = None
    """How the card's answer differs; '' where it agrees, None while nobody has looked."""
    cpu_s = 0.0
    """How long the CPU took for its answer, float64 included."""

    def expected_there(self, inputs: Any, seed: int) -> Expected:
        """The judge's answer lies on the CPU."""
        return self.expected(inputs, seed)

    def expected(self, inputs: Any, seed: int = 0) -> Expected:
        tree, tensors = trees.flatten(inputs, "inputs")
        inputs = trees.unflatten(tree, [t.cpu() for t in tensors])
        if self.dispute == "" and self.cpu_s > _LONGEST_CPU_S:
            return self._by_card(inputs, seed)
        start = time.monotonic()
        oracle = super().expected(inputs, seed)
        self.cpu_s = time.monotonic() - start
        if self.dispute is None:
            self.dispute = self._disputed(inputs, seed, oracle)
        reference = f"{oracle.reference} on the CPU"
        if self.dispute:
            reference += f"; {self.dispute}"
        return replace(oracle, reference=reference)

    def on_card(self, inputs: Any, seed: int) -> tuple[Any, list[Any], dict[str, Any]]:
        """Tree, outputs and buffers of one run on the card, brought back."""
        module = put(self.copy())
        tree, outputs = self.run(module, on_gpu(inputs), seed)
        device_api.api().synchronize()
        buffers = {name: b.detach().cpu() for name, b in module.named_buffers()}
        return tree, [t.cpu() for t in outputs], buffers

    def _by_card(self, inputs: Any, seed: int) -> Expected:
        tree, outputs, buffers = self.on_card(inputs, seed)
        told = f"torch_musa's own: the CPU agreed with it once, and takes {self.cpu_s:.0f} s"
        return Expected(tree, outputs, None, told, buffers)

    def _disputed(self, inputs: Any, seed: int, oracle: Expected) -> str:
        if oracle.random:
            return ""
        try:
            _, outputs, _ = self.on_card(inputs, seed)
        except Exception as error:  # torch_musa lacks some operators: that is told, no more
            first = "".join(str(error).strip().splitlines()[:1])
            return f"torch_musa does not run it ({type(error).__name__}: {first})"[:300]
        return dispute_between(outputs, oracle)


def dispute_between(outputs: list[Any], oracle: Expected) -> str:
    """How the card's answer differs from the CPU's; '' where it is within tolerance."""
    exact: list[Any] = [None] * len(oracle.native)
    if oracle.exact is not None:
        exact = [value.array for value in _values(oracle.exact)]
    result = compare_all(_values(outputs), _values(oracle.native), exact, ToleranceRule(None, None))
    if result.kind is None:
        return ""
    return f"DISPUTE: torch_musa's own answer is another: {result.message}"


def _values(tensors: list[Any]) -> list[Value]:
    metas, blobs = encode_tensors([t.detach() for t in tensors])
    return [
        value_from_wire(f"output {i}", meta, bytes(blob))
        for i, (meta, blob) in enumerate(zip(metas, blobs, strict=True))
    ]


class MusaReferenceWorker(CudaReferenceWorker):
    def load(self, overrides: dict[str, int]) -> Any:
        return MusaReferenceModel(
            self.source, overrides, name=self.name, devices=contextlib.nullcontext
        )

    def _make(self, name: str) -> Any:
        if name != "eager":
            raise RuntimeError(EAGER_ONLY)
        positional, named = call_arguments(trees.unflatten(self.tree, self.buffers))
        module = put(self.model.copy())
        return lambda: module(*positional, **named)
