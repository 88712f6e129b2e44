"""The jailed process that runs the task's own module on a GPU: expected values and baselines."""

import contextlib
import gc
import os
from typing import Any

from musaagent.tools import trees
from musaagent.tools.cuda import device_api
from musaagent.tools.cuda.looked_at import pick, whole_size
from musaagent.tools.cuda.on_card import put
from musaagent.tools.cuda.regions import CARD, SharedSet, storage_bytes
from musaagent.tools.reference import (
    Expected,
    ReferenceModel,
    TaskCodeError,
    call_arguments,
    clone,
)
from musaagent.tools.wire import Channel, encode_tensors, tensor_meta
from musaagent.tools.worker_reference import ReferenceWorker, serve

_Answer = tuple[dict[str, Any], list[Any]]
_GRAPH_WARM_UP = 3


def main(channel: Channel) -> None:
    """Entry point for the fork server."""
    serve(channel, Rooms(CudaReferenceWorker))


class Rooms(ReferenceWorker):
    """A worker for each of the sizes that are asked for, over one context on the card."""

    def __init__(self, kind: "type[CudaReferenceWorker]") -> None:
        super().__init__()
        self.kind = kind
        self.rooms: dict[str, CudaReferenceWorker] = {}

    def handle(self, header: dict[str, Any]) -> _Answer:
        name = header["room"]
        if name not in self.rooms:
            self.rooms[name] = self.kind()
        room = self.rooms[name]
        room.blobs = self.blobs
        answer = room.handle(header)
        self.descriptors, room.descriptors = room.descriptors, []
        return answer


class CudaReferenceModel(ReferenceModel):
    """Weights, and inputs outside of timing, are drawn on the CPU; forward runs on the GPU, in
    float64 too."""

    def copy(self) -> Any:
        return put(super().copy())

    def expected_there(self, inputs: Any, seed: int) -> Expected:
        """What `expected` returns, left where it was computed."""
        found = super().expected(on_gpu(inputs), seed)
        device_api.api().synchronize()
        return found

    def expected(self, inputs: Any, seed: int = 0) -> Expected:
        found = self.expected_there(inputs, seed)
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
        self.tree: Any = None
        self.shared: SharedSet | None = None
        """The set that the candidate's process is to map; ours no more when the next request is."""
        self.calls: dict[str, Any] = {}
        self.flusher: Any = None

    def handle(self, header: dict[str, Any]) -> _Answer:
        if self.shared is not None:
            self.shared.close()
            self.shared = None
        match header["op"]:
            case "timing_inputs":
                return self.timing_inputs(header)
            case "pass_on":
                return self.pass_on(header)
            case "use_set":
                return self.use_set(header["index"])
            case "expected_at":
                return self.expected_at(header)
            case "forget":
                return self.forget()
            case "baseline":
                return self.baseline(header)
            case "time":
                return self.time(header)
        return super().handle(header)

    def open(self, header: dict[str, Any]) -> _Answer:
        from musaagent.tools.cuda import clock

        device_api.see_only(header["gpu"])
        if "Stream" not in header["source"]:
            # The driver makes a context with one queue three times as fast as one with eight. All
            # streams would share it, but the task has none of its own.
            os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
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

    def inputs(self, seed: int, stress: str = "") -> _Answer:
        """On a card an index out of range ends the process: the CPU is asked first."""
        answer, blobs = super().inputs(seed, stress)
        if stress == "integers" and answer["applies"] and not self._cpu_answers():
            return {"ok": True, "applies": False}, []
        return answer, blobs

    def _cpu_answers(self) -> bool:
        try:
            module = ReferenceModel.copy(self.model)
            ReferenceModel.run(self.model, module, clone(self.drawn), 0)
        except TaskCodeError:
            return False
        return True

    def input_tensors(self) -> list[Any]:
        """Without values: gigabytes are not drawn to be measured."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                return super().input_tensors()
        except TaskCodeError:  # get_inputs() looks at values
            return super().input_tensors()

    # ---- inputs for timing

    def timing_inputs(self, header: dict[str, Any]) -> _Answer:
        """One more set of inputs on the card, drawn there where the task's code allows it."""
        if header["first"]:
            self.forget()
        try:
            self.tree, tensors = trees.flatten(self.draw(header["seed"]), "get_inputs()")
            self.sets.append([put(t).resolve_conj().resolve_neg() for t in tensors])
        except RuntimeError as error:
            raise TaskCodeError(f"inputs for timing: {_first_line(error)}") from None
        return self.pass_on(header)

    def draw(self, seed: int) -> Any:
        import torch

        try:
            with torch.device(device_api.device()):
                return self.model.inputs(seed)
        except TaskCodeError:
            return self.model.inputs(seed)

    def pass_on(self, header: dict[str, Any]) -> _Answer:
        """The last set, for the candidate's process: by the first of `ways`, or as blobs."""
        tensors = self.sets[-1]
        metas = [tensor_meta(t) for t in tensors]
        answer = {"ok": True, "tree": self.tree, "tensors": metas, "shared": 0, "where": ""}
        answer["nbytes"] = sum(storage_bytes(meta) for meta in metas)
        reasons = []
        for where in header["ways"]:
            try:
                self.shared = self.share(where, tensors, metas)
            except Exception as error:  # whatever it is, there is another way
                reasons.append(_first_line(error))
                continue
            self.descriptors = [self.shared.descriptor]
            told = {"shared": self.shared.size, "where": where, "unshared": "; ".join(reasons)}
            return answer | told, []
        answer["unshared"] = "; ".join(reasons)
        if answer["nbytes"] > header["most_sent"]:
            return answer, []
        return answer, list(encode_tensors(tensors)[1])

    def share(self, where: str, tensors: list[Any], metas: list[dict[str, Any]]) -> SharedSet:
        if where == CARD and device_api.device() != "cuda":
            raise RuntimeError("only CUDA's driver is asked for card memory")
        return SharedSet(tensors, metas, device_api.api().synchronize, where)

    def use_set(self, index: int) -> _Answer:
        """What is computed next is computed on that set alone; all else is freed."""
        import torch

        self.drawn = trees.unflatten(self.tree, self.sets[index])
        if "compile" in self.calls:
            torch._dynamo.reset()
        self.sets, self.buffers, self.calls = [self.sets[index]], [], {}
        self._release()
        return {"ok": True}, []

    def forget(self) -> _Answer:
        """Nothing large is held between candidates."""
        self.sets, self.buffers, self.calls, self.drawn = [], [], {}, None
        self.flusher = None
        self._release()
        return {"ok": True}, []

    def _release(self) -> None:
        gc.collect()
        device_api.api().synchronize()
        device_api.api().empty_cache()

    def expected_at(self, header: dict[str, Any]) -> _Answer:
        """Expected values at the flat indices that came along, one blob for each output.

        Outputs of another number of elements than `counts` says have no values in the answer.
        """
        import torch

        found = self.model.expected_there(self.drawn, header["seed"])
        exact = found.exact if found.exact is not None else [None] * len(found.native)
        values: list[Any] = []
        sizes, counts = [], header["counts"]
        if [t.numel() for t in found.native] == counts:
            indices = [torch.frombuffer(bytearray(b), dtype=torch.int64) for b in self.blobs]
            for outputs in (found.native, found.exact or []):
                values += [pick(t, i) for t, i in zip(outputs, indices, strict=False)]
            sizes = [
                whole_size(t, wide) if t.is_floating_point() or t.is_complex() else (0.0, 0.0)
                for t, wide in zip(found.native, exact, strict=True)
            ]
        metas, blobs = encode_tensors(values)
        answer = {
            "ok": True,
            "tree": found.tree,
            "whole": [tensor_meta(t) for t in found.native],
            "tensors": metas,
            "sizes": sizes,
            "has_exact": found.exact is not None,
            "reference": found.reference,
            "changed_inputs": found.changed_inputs,
        }
        del found, exact, values
        self._release()
        return answer, list(blobs)

    # ---- baselines

    def baseline(self, header: dict[str, Any]) -> _Answer:
        """Make and warm up one of `eager`, `compile`, `graph`; `error` says why it cannot be."""
        import torch

        from musaagent.tools.cuda.clock import Flusher, host_seconds

        if header["fresh"]:
            self.calls, self.buffers = {}, [t.clone() for t in self.sets[0]]
        device_api.set_tf32(bool(header["tf32"]))
        name, call, failed, host_s = header["name"], None, "", 0.0
        try:
            with torch.no_grad():
                call = self._make(name)
                for _ in range(header["warm_up"]):
                    call()
                device_api.api().synchronize()
                host_s = host_seconds(call)
        except Exception as error:
            failed = _first_line(error)
        if failed:
            # Out of memory, it may be: the others need what it took.
            call = None
            self._release()
            return {"ok": True, "error": failed}, []
        if self.flusher is None:
            self.flusher = Flusher()
        self.calls[name] = call
        return {"ok": True, "error": "", "host_s": host_s}, []

    def _make(self, name: str) -> Any:
        import torch

        positional, named = call_arguments(trees.unflatten(self.tree, self.buffers))
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


def _first_line(error: BaseException) -> str:
    first = str(error).strip().splitlines()[:1]
    return f"{type(error).__name__}: {''.join(first)}"[:300]
