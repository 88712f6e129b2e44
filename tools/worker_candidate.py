"""The jailed process that imports one candidate and runs it. Nothing it says is trusted.

The parent sends one request at a time and gets one answer, with build requests in between whenever
the candidate calls `load_inline`. What comes back is data for the parent to judge: outputs, the
operators that were seen, the runtime's report.
"""

import contextlib
import gc
import importlib.util
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from musaagent.tools import hooks, trees
from musaagent.tools.answers import describe_error, packed
from musaagent.tools.recorders import (
    CANDIDATE_FILE,
    Places,
    ThreadRecord,
    operator_recorder,
    operators_in_all_threads,
    part_of,
)
from musaagent.tools.watch import Watcher, digest, members
from musaagent.tools.weights import align_state, load_state, shifted
from musaagent.tools.wire import Channel, decode_tensors

CANDIDATE_MODULE = "musaagent_candidate"


def main(channel: Channel) -> None:
    """Answer requests until the channel closes. Entry point for the fork server."""
    serve(channel, CandidateWorker(channel))


def serve(channel: Channel, worker: "CandidateWorker") -> None:
    check: Callable[[], list[str]] | None = None
    while True:
        header, blobs = channel.recv(None)
        if header["op"] == "stop":
            return
        gc.disable()  # whatever the last call made of it
        try:
            answer, out = worker.handle(header, blobs)
        except BaseException as error:  # candidate code raises what it likes, SystemExit included
            answer, out = {"ok": False, "error": describe_error(error)}, []
            with contextlib.suppress(Exception):  # before setup there is no runtime to ask
                answer["report"] = worker.report()
        if header["op"] == "setup" and answer["ok"]:
            check = worker.watcher.identities.check
            hooks.hold_code()
            hooks.freeze_what_is_there()
        if check is not None:
            # Here, for whatever runs below can be made another by what is below.
            answer["replaced"] = [*answer.get("replaced", []), *check()]
        channel.send(answer | {"nonce": header.get("nonce")}, out)
        gc.collect()  # here alone: finalizers find the inputs that were answered


class CandidateWorker:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.module: types.ModuleType | None = None
        self.model: Any = None
        self.inputs: list[Any] = []
        self.checked = False
        self.pybind = False
        """Whether a module was built by pybind, of which not all can be made to fail."""
        self.watcher: Watcher

    def handle(
        self, header: dict[str, Any], blobs: list[bytes]
    ) -> tuple[dict[str, Any], list[Any]]:
        match header["op"]:
            case "setup":
                return self.setup(header)
            case "import":
                return self.load(header["source"])
            case "warm":
                return self.warm()
            case "construct":
                return self.construct(header, blobs)
            case "restate":
                return self.restate(header, blobs)
            case "run":
                return self.run(header, blobs)
            case "launches":
                return self.launches(header)
        raise ValueError(f"unknown request {header['op']!r}")

    def setup(self, header: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        import torch

        from musaagent.tools.host import bridge, torch_shim
        from musaagent.tools.host.bridge_device import host_tensors, place_of
        from musaagent.tools.host.bridge_hidden import follow_threads
        from musaagent.tools.host.torch_shim_state import State, state

        torch.set_num_threads(1)
        self.checked = bool(header["checked"])
        bridge.load_runtime(header["runtime"])
        self.order(header)
        bridge.set_guard(not self.checked)
        bridge.runtime().on_host_copy = lambda t, way: State.note_host_copy(state, t, way)
        torch_shim.install(self.build)
        follow_threads()
        Places.device_of = staticmethod(place_of)
        Places.follow = host_tensors.follow
        self.watcher = Watcher()
        self.watcher.seal(self, self.channel, state, bridge.runtime())
        return {"ok": True}, []

    def order(self, header: dict[str, Any]) -> None:
        from musaagent.tools.host import bridge

        bridge.configure(
            order=header["order"],
            seed=header["order_seed"],
            threads=header["threads"],
            checked=self.checked,
            warp_size=header["warp_size"],
        )

    def build(self, request: Any) -> Any:
        """Stand-in for `load_inline`: the parent compiles, this process only loads."""
        from musaagent.tools.host import bridge

        self.channel.send({"op": "build", **request_fields(request)}, [])
        header, _ = self.channel.recv(None)
        if not header["ok"]:
            raise RuntimeError(header["error"])
        if header["level"] == "full":
            self.pybind = True
            bridge.allow_host_pointers()
            return load_pybind(header["module"], header["library"])
        return bridge.load_library(header["library"], header["functions"], checked=self.checked)

    def load(self, source: str) -> tuple[dict[str, Any], list[Any]]:
        path = Path.cwd() / CANDIDATE_FILE
        path.write_text(source, encoding="utf-8")
        linecache.cache[str(path)] = (len(source), None, source.splitlines(True), str(path))
        module = types.ModuleType(CANDIDATE_MODULE)
        module.__file__ = str(path)
        sys.modules[CANDIDATE_MODULE] = module
        from musaagent.tools.host import bridge
        from musaagent.tools.host.bridge_device import following

        with following(), bridge.candidate_code():
            exec(compile(source, str(path), "exec"), module.__dict__)
        if not isinstance(getattr(module, "ModelNew", None), type):
            raise AttributeError("the candidate defines no class ModelNew")
        self.module = module
        return {"ok": True, "report": self.report()}, []

    def construct(
        self, header: dict[str, Any], blobs: list[bytes]
    ) -> tuple[dict[str, Any], list[Any]]:
        import torch

        from musaagent.tools.host import bridge
        from musaagent.tools.host.bridge_device import following, host_tensors
        from musaagent.tools.reference import call_arguments

        tensors = decode_tensors(header["tensors"], blobs)
        names: list[str] = header["state_names"]
        state = dict(zip(names, tensors[len(tensors) - len(names) :], strict=True))
        init = trees.unflatten(header["init"], tensors[: len(tensors) - len(names)])
        self.model, self.inputs = None, []
        torch.manual_seed(header["seed"])
        assert self.module is not None
        positional, named = call_arguments(init)
        with following(), bridge.candidate_code():
            model = self.module.ModelNew(*positional, **named)
        if not isinstance(model, torch.nn.Module):
            raise TypeError("ModelNew is no torch.nn.Module")
        agreement = align_state(model, state)
        host_tensors.adopt(model)
        self.watcher.forget_outputs()
        if self.checked:
            self._guard_state(model)
        self.model = model
        return {"ok": True, "state": agreement, "report": self.report()}, []

    def _guard_state(self, model: Any) -> None:
        from musaagent.tools.host import bridge

        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.data = bridge.guard_copy(tensor.data)

    def restate(
        self, header: dict[str, Any], blobs: list[bytes]
    ) -> tuple[dict[str, Any], list[Any]]:
        """Other weights for the model that has run already, as load_state_dict puts them there."""
        import torch

        tensors = decode_tensors(header["tensors"], blobs)
        with torch.no_grad():
            loaded = load_state(self.model, dict(zip(header["state_names"], tensors, strict=True)))
        return {"ok": True, "loaded": loaded, "report": self.report()}, []

    def warm(self) -> tuple[dict[str, Any], list[Any]]:
        """Whatever takes long and does not depend on the task."""
        return {"ok": True}, []

    def run(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[Any]]:
        """Forward. All of the candidate's code that may know of the inputs runs in the record, with
        what a module or an output calls by itself, until the values are copied into the answer.
        """
        self.order(header)
        fresh = decode_tensors(header["tensors"], blobs)
        own = self.watcher.own_namespaces()
        recorder = operator_recorder()
        with operators_in_all_threads(bool(header.get("every_thread") or own)) as everywhere:
            # Nobody holds the new values before they are recorded.
            self._place_inputs([shifted(t) for t in fresh] if header.get("offset") else fresh)
            answer, out, outputs = self._forward(header, recorder, everywhere)
        ran = [*recorder.names, *everywhere.operators]
        answer |= {
            "operators": [name for name in ran if not name.replace("::", ".").startswith(own)],
            "operator_lines": recorder.lines,
            "moved_elements": max(recorder.moved, everywhere.moved),
            "report": self.report(),
        }
        return answer | Watcher.end(self.watcher, self.model, self.inputs, outputs), out

    def _forward(
        self, header: dict[str, Any], recorder: Any, everywhere: ThreadRecord
    ) -> tuple[dict[str, Any], list[Any], list[Any]]:
        """The answer so far, its bytes, and the outputs."""
        import torch

        from musaagent.tools.host import bridge
        from musaagent.tools.host.bridge_hidden import hidden
        from musaagent.tools.host.bridge_memory import filled_with
        from musaagent.tools.host.torch_shim_state import state
        from musaagent.tools.reference import call_arguments

        positional, named = call_arguments(trees.unflatten(header["inputs"], self.inputs))
        # Kernels that are built with torch's own headers use torch's addresses.
        device = None if self.pybind else bridge.runtime().device
        held = [
            t for kind in ("_parameters", "_buffers") for t in members(self.model, kind).values()
        ]
        closed = hidden(device, [*held, *self.inputs])
        before = [digest(t) for t in self.inputs]
        self.report()
        bridge.take_host_use()
        self.watcher.begin(self.model)
        torch.manual_seed(header["seed"])
        moved = bridge.moved_to_the_device()
        with (
            self.mode(header.get("mode", "")),
            filled_with(header.get("fresh")),
            torch.no_grad(),
            closed,
            part_of(everywhere),
            recorder,
            state.watching_host_copies(),
            self.watcher.leftovers(),
            bridge.candidate_code(),
        ):
            result = self.model(*positional, **named)
            # A list of a class of its own computes when it is read.
            tree, outputs = trees.flatten(result, "output")
            gc.disable()
        bridge.synchronize()
        everywhere.moved -= bridge.moved_to_the_device() - moved  # ours are in its record too
        taken, unwatched = bridge.take_host_use()
        if not self.checked and bridge.runtime().device is None:
            unwatched.append("its guard was switched off")
        if self.pybind:
            unwatched.append("it is built with torch's own headers")
        answer, out = packed(tree, outputs, self.model)
        answer |= {
            "changed_inputs": [i for i, t in enumerate(self.inputs) if digest(t) != before[i]],
            "host_copies": state.host_copies + taken,
            "unwatched": unwatched,
            "uses": state.uses,
        }
        return answer, out, outputs

    @contextlib.contextmanager
    def mode(self, name: str) -> Iterator[None]:
        """`no_kernels`: launches do nothing; `failing`: compiled functions raise."""
        from musaagent.tools.host import bridge, bridge_functions

        bridge.set_launching(name != "no_kernels")
        try:
            with bridge_functions.made_to_fail(name == "failing"):
                yield
        finally:
            bridge.set_launching(True)

    def launches(self, header: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Forward at sizes that nobody could compute: launches are checked, no kernel runs.

        Tensors are zeros that the system has not handed out yet, and stay so.
        """
        import torch

        from musaagent.tools.host import bridge
        from musaagent.tools.host.bridge_device import following, host_tensors
        from musaagent.tools.host.unfilled import unfilled, zeros
        from musaagent.tools.reference import call_arguments

        assert self.module is not None
        self.model, self.inputs = None, []
        bridge.set_guard(False)
        bridge.set_dry(True)
        with torch.no_grad(), unfilled(), following():
            init = trees.unflatten(header["init"], zeros(header["init_metas"]))
            positional, named = call_arguments(init)
            model = self.module.ModelNew(*positional, **named)
            host_tensors.adopt(model)
            values = trees.unflatten(header["inputs"], zeros(header["inputs_metas"]))
            positional, named = call_arguments(values)
            self.report()
            model(*positional, **named)
        return {"ok": True, "report": self.report()}, []

    def _place_inputs(self, fresh: list[Any]) -> None:
        """New values go into the last call's buffers, so that a cache keyed by address shows."""
        from musaagent.tools.host import bridge

        alike = len(fresh) == len(self.inputs) and all(
            a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
            for a, b in zip(fresh, self.inputs, strict=True)
        )
        if alike:
            for old, new in zip(self.inputs, fresh, strict=True):
                old.copy_(new)
        else:
            self.inputs = [bridge.guard_copy(t) for t in fresh] if self.checked else fresh

    def report(self) -> str:
        from musaagent.tools.host import bridge

        return bridge.take_report()


def request_fields(request: Any) -> dict[str, Any]:
    """The JSON form of a torch_shim.SourceRequest.

    Paths are told from the folder of all files on: candidates write them to a new one each time.
    """
    paths = list(request.with_files)
    folder = os.path.commonpath([str(Path(path).parent) for path in paths]) if paths else ""
    return {
        "name": request.name,
        "cpp_sources": list(request.cpp_sources),
        "cuda_sources": list(request.cuda_sources),
        "functions": None if request.functions is None else list(request.functions),
        "extra_cflags": list(request.extra_cflags),
        "extra_cuda_cflags": list(request.extra_cuda_cflags),
        "extra_ldflags": list(request.extra_ldflags),
        "extra_include_paths": list(request.extra_include_paths),
        "files": [
            {"path": os.path.relpath(path, folder), "text": text}
            for path, text in request.with_files.items()
        ],
        "implicit_headers": request.implicit_headers,
        "is_python_module": request.is_python_module,
    }


def load_pybind(name: str, path: str) -> types.ModuleType:
    from musaagent.tools.host.bridge_functions import guard

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    guard(module)
    return module
