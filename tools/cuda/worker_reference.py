"""The jailed process that runs the task's own module on a GPU: expected values and baselines."""

import contextlib
import os
from typing import Any

from musaagent.tools import trees
from musaagent.tools.cuda import device_api
from musaagent.tools.cuda.worker import put
from musaagent.tools.reference import Expected, ReferenceModel, call_arguments
from musaagent.tools.wire import Channel
from musaagent.tools.worker_reference import ReferenceWorker, serve

_Answer = tuple[dict[str, Any], list[Any]]
_GRAPH_WARM_UP = 3


def main(channel: Channel) -> None:
    """Entry point for the fork server."""
    serve(channel, CudaReferenceWorker())


class CudaReferenceModel(ReferenceModel):
    """Inputs and weights are drawn on the CPU; forward runs on the GPU, in float64 too."""

    def copy(self) -> Any:
        return put(super().copy())

    def expected(self, inputs: Any, seed: int = 0) -> Expected:
        found = super().expected(on_gpu(inputs), seed)
        device_api.api().synchronize()
        exact = None if found.exact is None else [t.cpu() for t in found.exact]
        return Expected(
            found.tree,
            [t.cpu() for t in found.native],
            exact,
            found.reference,
            {name: t.cpu() for name, t in found.buffers.items()},
            {},
            found.changed_inputs,
            found.random,
        )


def on_gpu(values: Any) -> Any:
    """Nested values with all tensors on the card."""
    tree, tensors = trees.flatten(values, "inputs")
    return trees.unflatten(tree, [put(t) for t in tensors])


class CudaReferenceWorker(ReferenceWorker):
    def __init__(self) -> None:
        super().__init__()
        self.buffers: list[Any] = []
        self.sets: list[list[Any]] = []
        self.calls: dict[str, Any] = {}
        self.flusher: Any = None

    def handle(self, header: dict[str, Any]) -> _Answer:
        match header["op"]:
            case "keep_inputs":
                return self.keep_inputs()
            case "baseline":
                return self.baseline(header)
            case "time":
                return self.time(header)
        return super().handle(header)

    def open(self, header: dict[str, Any]) -> _Answer:
        from musaagent.tools.cuda import clock

        device_api.see_only(header["gpu"])
        tmp = os.environ.get("TMPDIR", "/tmp")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{tmp}/inductor"
        os.environ["TRITON_CACHE_DIR"] = f"{tmp}/triton"
        device_api.start()
        clock.bind()
        return super().open(header)

    def load(self, overrides: dict[str, int]) -> Any:
        return CudaReferenceModel(
            self.source, overrides, name=self.name, devices=contextlib.nullcontext
        )

    # ---- baselines

    def keep_inputs(self) -> _Answer:
        """The inputs drawn last become one more set for timing."""
        _, tensors = trees.flatten(self.drawn, "get_inputs()")
        self.sets.append([put(t) for t in tensors])
        return {"ok": True, "sets": len(self.sets)}, []

    def forget_inputs(self) -> None:
        self.sets, self.buffers, self.calls = [], [], {}

    def baseline(self, header: dict[str, Any]) -> _Answer:
        """Make and warm up one of `eager`, `compile`, `graph`; `error` says why it cannot be."""
        import torch

        from musaagent.tools.cuda.clock import Flusher, host_seconds

        if header["fresh"]:
            self.calls, self.sets = {}, self.sets[-header["sets"] :]
            self.buffers = [t.clone() for t in self.sets[0]]
        device_api.set_tf32(bool(header["tf32"]))
        name = header["name"]
        try:
            with torch.no_grad():
                call = self._make(name)
                for _ in range(header["warm_up"]):
                    call()
                device_api.api().synchronize()
                host_s = host_seconds(call)
        except Exception as error:
            first = str(error).strip().splitlines()[:1]
            return {"ok": True, "error": f"{type(error).__name__}: {''.join(first)}"[:300]}, []
        if self.flusher is None:
            self.flusher = Flusher()
        self.calls[name] = call
        return {"ok": True, "error": "", "host_s": host_s}, []

    def _make(self, name: str) -> Any:
        import torch

        tree, _ = trees.flatten(self.drawn, "get_inputs()")
        positional, named = call_arguments(trees.unflatten(tree, self.buffers))
        module = self.model.copy()
        if name == "eager":
            return lambda: module(*positional, **named)
        if name == "compile":
            torch._dynamo.reset()
            compiled: Any = torch.compile(module)
            return lambda: compiled(*positional, **named)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_GRAPH_WARM_UP):
                module(*positional, **named)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = module(*positional, **named)

        def replay() -> Any:
            graph.replay()
            return kept

        return replay

    def time(self, header: dict[str, Any]) -> _Answer:
        import torch

        from musaagent.tools.cuda.clock import measure

        with torch.no_grad():
            found = measure(
                self.calls[header["name"]],
                self.buffers,
                self.sets,
                count=header["count"],
                first=header["first"],
                host_s=header["host_s"],
                flusher=self.flusher,
            )
        found.pop("kept")
        return {"ok": True, **found}, []
