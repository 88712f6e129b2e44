"""The jailed process that runs one candidate on a GPU. Nothing it says is trusted.

Without a GPU it still imports candidates, so that their sources can be compiled.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from musaagent.tools import trees
from musaagent.tools.answers import odd_types, packed
from musaagent.tools.cuda import device_api
from musaagent.tools.cuda.holding import Launches
from musaagent.tools.cuda.looked_at import pick
from musaagent.tools.cuda.on_card import device_digest, noted, poison_on_card, put, same
from musaagent.tools.cuda.regions import CARD, MappedSet
from musaagent.tools.recorders import (
    Places,
    ThreadRecord,
    operator_recorder,
    operators_in_all_threads,
    part_of,
)
from musaagent.tools.watch import Watcher, detached
from musaagent.tools.weights import align_state
from musaagent.tools.wire import Channel, decode_tensors, encode_tensors, tensor_meta
from musaagent.tools.worker_candidate import (
    CandidateWorker,
    load_pybind,
    request_fields,
    serve,
)

_Answer = tuple[dict[str, Any], list[Any]]
_DESCRIPTORS_TIMEOUT_S = 30.0


def main(channel: Channel) -> None:
    """Entry point for the fork server."""
    serve(channel, CudaWorker(channel))


def probe(channel: Channel) -> None:
    """Whether CUDA comes up in this jail: one answer, then the end."""
    header, _ = channel.recv(None)
    try:
        device_api.see_only(header["gpu"])
        import torch

        device_api.api()
        value = torch.ones(8, device=device_api.device()).sum().item()
        channel.send({"ok": value == 8.0, "error": ""}, [])
    except BaseException as error:
        channel.send({"ok": False, "error": f"{type(error).__name__}: {error}"[:500]}, [])


class CudaWorker(CandidateWorker):
    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.has_gpu = False
        self.launches_of_modules = Launches()
        self.last: dict[str, Any] = {}
        self.sets: list[list[Any]] = []
        self.mapped: list[MappedSet] = []
        self.kept: list[Any] = []
        """Outputs of a repetition that are too large to be sent, until they are looked at."""
        self.flusher: Any = None

    def handle(self, header: dict[str, Any], blobs: list[bytes]) -> _Answer:
        match header["op"]:
            case "time_setup":
                return self.time_setup(header, blobs)
            case "time":
                return self.time(header)
            case "sample":
                return self.sample(blobs)
            case "profile":
                return self.profile()
        return super().handle(header, blobs)

    def setup(self, header: dict[str, Any]) -> _Answer:
        import torch

        # All that times are taken with is there before the watcher notes what is original.
        from musaagent.tools.cuda import clock, kernels  # noqa: F401

        device_api.see_only(header["gpu"])
        self.has_gpu = bool(header["gpu"])
        torch.set_num_threads(4)
        self.install(header)
        if self.has_gpu:
            device_api.start()
            device_api.set_tf32(bool(header["tf32"]))
            clock.bind()
        Places.fresh = staticmethod(poison_on_card)
        # The driver starts threads, which are not looked at; values are summed up on the card.
        self.watcher = Watcher(device_digest, native_threads=False)
        self.watcher.seal(self, self.channel)
        return {"ok": True}, []

    def install(self, header: dict[str, Any]) -> None:
        """What stands in for the loaders that a candidate may call."""
        import torch

        from musaagent.tools.cuda import bridge
        from musaagent.tools.host.torch_shim_extension import extension_module
        from musaagent.tools.host.torch_shim_state import state

        bridge.load_runtime(header["runtime"])
        state.hook = self.build
        extension = extension_module()
        sys.modules["torch.utils.cpp_extension"] = extension
        setattr(torch.utils, "cpp_extension", extension)  # noqa: B010

    def order(self, header: dict[str, Any]) -> None:
        """A GPU orders its threads by itself."""

    def report(self) -> str:
        return ""

    def build(self, request: Any) -> Any:
        """Stand-in for `load_inline`: the parent compiles, this process only loads."""
        from musaagent.tools.host import bridge

        self.channel.send({"op": "build", **request_fields(request)}, [])
        header, _ = self.channel.recv(None)
        if not header["ok"]:
            raise RuntimeError(header["error"])
        if header["level"] in ("light", "full"):
            self.pybind = True
            module = load_pybind(header["module"], header["library"])
        else:
            module = bridge.load_library(header["library"], header["functions"])
        self.launches_of_modules.add(header["library"])
        return module

    def construct(self, header: dict[str, Any], blobs: list[bytes]) -> _Answer:
        import torch

        from musaagent.tools.reference import call_arguments

        tensors = decode_tensors(header["tensors"], blobs)
        names: list[str] = header["state_names"]
        split = len(tensors) - len(names)
        state = {n: put(t) for n, t in zip(names, tensors[split:], strict=True)}
        init = trees.unflatten(header["init"], tensors[:split])
        self.model = None
        self._drop_sets()
        torch.manual_seed(header["seed"])
        assert self.module is not None
        positional, named = call_arguments(init)
        model = self.module.ModelNew(*positional, **named)
        if not isinstance(model, torch.nn.Module):
            raise TypeError("ModelNew is no torch.nn.Module")
        model = put(model)
        with torch.no_grad():
            agreement = align_state(model, state)
        device_api.api().synchronize()
        self.watcher.forget_outputs()
        self.model = model
        return {"ok": True, "state": agreement, "report": ""}, []

    def warm(self) -> _Answer:
        """A context on the card."""
        import torch

        put(torch.zeros(1))
        device_api.api().synchronize()
        return {"ok": True}, []

    def run(self, header: dict[str, Any], blobs: list[bytes]) -> _Answer:
        """As on the host: the record begins before any code of the candidate's can run."""
        # What the watcher notes of the state is computed on the card: not in the record.
        self.watcher.begin(self.model)
        fresh = decode_tensors(header["tensors"], blobs)
        recorder, own = operator_recorder(), self.watcher.own_namespaces()
        held = header.get("mode") == "no_kernels"  # watched in another way
        deep = bool(header.get("every_thread") or own) and not held
        with operators_in_all_threads(deep) as everywhere:
            # Nobody holds the new values before they are recorded.
            self._place_inputs([put(t) for t in fresh])
            del fresh
            before = [noted(t) for t in self.inputs]
            device_api.api().synchronize()  # our own copies are not among its kernels
            answer, out, outputs = self._recorded(header, recorder, everywhere, deep)
        changed = [i for i, t in enumerate(self.inputs) if not same(t, before[i])]
        ran = [*recorder.names, *everywhere.operators]
        answer |= {
            "changed_inputs": changed,
            "operators": [name for name in ran if not name.replace("::", ".").startswith(own)],
            "operator_lines": recorder.lines,
            "moved_elements": max(recorder.moved, everywhere.moved),
            "report": "",
        }
        answer |= Watcher.end(self.watcher, self.model, self.inputs, outputs)
        return answer, out

    def _recorded(
        self, header: dict[str, Any], recorder: Any, everywhere: ThreadRecord, deep: bool
    ) -> tuple[dict[str, Any], list[Any], list[Any]]:
        import torch

        from musaagent.tools.cuda.kernels import record_kernels
        from musaagent.tools.host.bridge_memory import filled_with

        call = self._bound(header["inputs"])
        held = header.get("mode") == "no_kernels"  # whether it worked is seen by what ran
        watched = bool(header.get("watch_kernels") or held) and not deep  # one profiler at a time

        def forward() -> Any:
            with (
                self.mode(header.get("mode", "")),
                filled_with(header.get("fresh")),
                torch.no_grad(),
                part_of(everywhere),
                recorder,
                self.watcher.leftovers(),
            ):
                # A list of a class of its own computes when it is read.
                return trees.flatten(call(), "output")

        torch.manual_seed(header["seed"])
        kernels, unseen = None, ""
        if watched:
            (tree, outputs), kernels, unseen = record_kernels(forward)
        else:
            tree, outputs = forward()
        device_api.api().synchronize()
        answer, out = packed(tree, outputs, self.model)
        return answer | {"kernels": kernels, "kernels_unseen": unseen}, out, outputs

    @contextlib.contextmanager
    def mode(self, name: str) -> Iterator[None]:
        """`failing`: compiled functions raise; `no_kernels`: launches do nothing."""
        from musaagent.tools.host import bridge, bridge_functions

        bridge.set_launching(name != "no_kernels")
        self.launches_of_modules.hold(name == "no_kernels")
        try:
            with bridge_functions.made_to_fail(name == "failing"):
                yield
        finally:
            self.launches_of_modules.hold(False)
            bridge.set_launching(True)

    def _described(self, result: Any, most_bytes: int) -> _Answer:
        """Outputs of more than `most_bytes` are kept here, and only described."""
        tree, outputs = trees.flatten(result, "output")
        if sum(t.numel() * t.itemsize for t in outputs) <= most_bytes:
            return packed(tree, outputs, self.model)
        answer, out = packed(tree, [], self.model)
        self.kept = [detached(t) for t in outputs]
        whole = [tensor_meta(t) for t in self.kept]
        return answer | {"odd_types": odd_types(outputs), "whole": whole}, out

    def _bound(self, tree: Any) -> Any:
        """forward on the current input buffers."""
        from musaagent.tools.reference import call_arguments

        positional, named = call_arguments(trees.unflatten(tree, self.inputs))
        return lambda: self.model(*positional, **named)

    # ---- timing and profile

    def time_setup(self, header: dict[str, Any], blobs: list[bytes]) -> _Answer:
        """One more set of input values; the first call of forward with it warms up.

        `shared` bytes of memory come as an open file; 0: the values are in the blobs. An answer
        with `unmapped` says why the memory cannot be had, and asks for another way.
        """
        import torch

        from musaagent.tools.cuda import bridge
        from musaagent.tools.cuda.clock import Flusher, host_seconds

        bridge.poisoning = False
        if header["first"]:
            self._drop_sets()
        if header.get("shared"):
            descriptors = self.channel.recv_descriptors(1, _DESCRIPTORS_TIMEOUT_S)
            try:
                fresh = self.map_set(descriptors[0], header)
            except Exception as error:  # whatever it is, there is another way
                return {"ok": True, "unmapped": f"{type(error).__name__}: {error}"[:300]}, []
            finally:
                os.close(descriptors[0])
        else:
            fresh = [put(t) for t in decode_tensors(header["tensors"], blobs)]
        self.sets.append(fresh)
        if not header["last"]:
            return {"ok": True}, []
        self._place_inputs([t.clone() for t in self.sets[0]])
        self.last = header
        call = self._bound(header["inputs"])
        with torch.no_grad():
            for _ in range(header["warm_up"]):
                call()
            device_api.api().synchronize()
            host_s = host_seconds(call)
        if self.flusher is None:
            self.flusher = Flusher()
        return {"ok": True, "host_s": host_s}, []

    def map_set(self, descriptor: int, header: dict[str, Any]) -> list[Any]:
        """Tensors over the reference's card memory, or copies on the card of its host memory."""
        given = MappedSet(descriptor, header["shared"], header["tensors"], header["where"])
        if header["where"] == CARD:
            self.mapped.append(given)
            return given.tensors
        try:
            return [t.to(device_api.device(), copy=True) for t in given.tensors]
        finally:
            given.close()

    def _drop_sets(self) -> None:
        self.sets, self.inputs, self.kept = [], [], []
        if self.has_gpu:
            device_api.api().synchronize()
        for mapped in self.mapped:
            mapped.close()
        self.mapped = []

    def sample(self, blobs: list[bytes]) -> _Answer:
        """Elements of the outputs that were kept, at flat indices; nothing is kept afterwards."""
        import torch

        kept, self.kept = self.kept, []
        indices = [torch.frombuffer(bytearray(blob), dtype=torch.int64) for blob in blobs]
        values = [pick(t, i) for t, i in zip(kept, indices, strict=True)]
        del kept
        metas, out = encode_tensors(values)
        device_api.api().empty_cache()
        return {"ok": True, "tensors": metas}, list(out)

    def time(self, header: dict[str, Any]) -> _Answer:
        import torch

        from musaagent.tools.cuda.clock import measure

        with torch.no_grad():
            found = measure(
                self._bound(self.last["inputs"]),
                self.inputs,
                self.sets,
                count=header["count"],
                first=header["first"],
                host_s=header["host_s"],
                flusher=self.flusher,
                keep=header["keep"],
            )
        kept = found.pop("kept")
        if kept is None:
            return {"ok": True, **found}, []
        answer, out = self._described(kept, header["most_bytes"])
        said: dict[str, Any] = {"changed_inputs": [], "operators": []}
        return answer | found | said, out

    def profile(self) -> _Answer:
        """Kernel times over a few calls on the timed inputs."""
        import torch

        from musaagent.tools.cuda.kernels import record_kernels

        call = self._bound(self.last["inputs"])

        def several() -> None:
            with torch.no_grad():
                for _ in range(5):
                    call()

        _, kernels, unseen = record_kernels(several)
        return {"ok": True, "kernels": kernels, "kernels_unseen": unseen, "calls": 5}, []
