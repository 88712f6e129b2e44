"""The jailed process that runs the task's own module: inputs, weights, expected values, plan."""

import os
from typing import Any

from musaagent.tools import trees
from musaagent.tools.wire import Channel, encode_tensors

_Answer = tuple[dict[str, Any], list[Any]]


def main(channel: Channel) -> None:
    """Answer requests until the channel closes. Entry point for the fork server."""
    serve(channel, ReferenceWorker())


def serve(channel: Channel, worker: "ReferenceWorker") -> None:
    from musaagent.tools.reference import TaskCodeError

    while True:
        header, worker.blobs = channel.recv(None)
        try:
            answer, blobs = worker.handle(header)
        except TaskCodeError as error:
            answer, blobs = {"ok": False, "error": str(error)}, []
        channel.send(answer, blobs)
        if worker.descriptors:
            channel.send_descriptors(worker.descriptors)
            for descriptor in worker.descriptors:
                os.close(descriptor)
            worker.descriptors = []


class ReferenceWorker:
    def __init__(self) -> None:
        self.source = ""
        self.name = "task"
        self.scales: Any = None
        self.model: Any = None
        self.drawn: Any = None
        self.blobs: list[bytes] = []
        """What came with the request."""
        self.descriptors: list[int] = []
        """Open files that follow the answer, which announces them."""

    def handle(self, header: dict[str, Any]) -> _Answer:
        match header["op"]:
            case "open":
                return self.open(header)
            case "scaling":
                return {"ok": True, "overrides": self.overrides(header["scale"])}, []
            case "lane":
                return {"ok": True, "overrides": self.lane(header["lane"])}, []
            case "plan":
                return self.plan()
            case "own":
                return self.own()
            case "construct":
                return self.construct(header["seed"])
            case "inputs":
                return self.inputs(header["seed"], header.get("stress", ""))
            case "restate":
                return self.restate(header["seed"])
            case "expected":
                return self.expected(header["seed"])
        raise ValueError(f"unknown request {header['op']!r}")

    def open(self, header: dict[str, Any]) -> _Answer:
        """Load the task at given overrides, or at those of a scale."""
        import torch

        torch.set_num_threads(2)
        _no_compiling()
        self.source, self.name = header["source"], header["name"]
        overrides = header["overrides"]
        if overrides is None:
            overrides = self.overrides(header["scale"])
        self.model = self.load(overrides)
        shapes = [
            f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in self.input_tensors()
        ]
        answer = {"overrides": overrides, "shapes": shapes, "resized": self.resized(overrides)}
        return {"ok": True, **answer}, []

    def input_tensors(self) -> list[Any]:
        """Tensors of the inputs' dtypes and shapes."""
        return trees.flatten(self.model.inputs(0), "get_inputs()")[1]

    def resized(self, overrides: dict[str, int]) -> bool:
        """Whether more than the batch is reduced."""
        from musaagent.tools.scaling import Role, propose_scalings

        batches = {c.name for c in propose_scalings(self.source) if c.role is Role.BATCH}
        return any(name not in batches for name in overrides)

    def load(self, overrides: dict[str, int]) -> Any:
        from musaagent.tools.reference import ReferenceModel

        return ReferenceModel(self.source, overrides, name=self.name)

    def overrides(self, scale: str) -> dict[str, int]:
        """Size constants to change for `own`, or a scale of BUDGETS."""
        from musaagent.tools.plan import BUDGETS, TaskScales

        if scale == "own":
            return {}
        if self.scales is None:
            self.scales = TaskScales(self.source, self.name)
        return dict(self.scales.scale(BUDGETS[scale]).overrides)

    def lane(self, name: str) -> dict[str, int] | None:
        """Size constants to change for a lane of other sizes; None where there is none."""
        from musaagent.tools.lanes import lane_sizes
        from musaagent.tools.plan import TaskScales

        if self.scales is None:
            self.scales = TaskScales(self.source, self.name)
        return lane_sizes(self.scales, name)

    def plan(self) -> _Answer:
        from musaagent.tools.plan import plan_task

        plan = plan_task(self.source, name=self.name)
        return {"ok": True, "plan": plan.model_dump(mode="json")}, []

    def own(self) -> _Answer:
        """Init inputs and inputs at the task's own sizes, without their values."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        from musaagent.tools.reference import ReferenceModel

        answer: dict[str, Any] = {"ok": True}
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = ReferenceModel(self.source, None, name=self.name)
            for key, values in (("init", model.init_inputs(0)), ("inputs", model.inputs(0))):
                tree, tensors = trees.flatten(values, key)
                answer[key] = tree
                answer[f"{key}_metas"] = [
                    {
                        "dtype": str(t.dtype).removeprefix("torch."),
                        "shape": list(t.shape),
                        "stride": list(t.stride()),
                    }
                    for t in tensors
                ]
        return answer, []

    def construct(self, seed: int) -> _Answer:
        init = self.model.init_inputs(seed)
        self.model.construct(seed, init)
        tree, tensors = trees.flatten(init, "get_init_inputs()")
        state = {k: v.detach() for k, v in self.model.state().items()}
        metas, blobs = encode_tensors(tensors + list(state.values()))
        answer = {"ok": True, "tree": tree, "tensors": metas, "state_names": list(state)}
        return answer, list(blobs)

    def inputs(self, seed: int, stress: str = "") -> _Answer:
        """Inputs drawn with `seed`, or those of a stress lane (`applies` false: it has none)."""
        drawn = self.model.inputs(seed)
        tree, tensors = trees.flatten(drawn, "get_inputs()")
        if stress:
            from musaagent.tools.stress import stressed

            before = tensors
            if stress == "few" and self.drawn is not None:
                before = trees.flatten(self.drawn, "get_inputs()")[1]
            if stress == "fixed":
                tensors = trees.flatten(self.model.inputs(seed + 1), "get_inputs()")[1]
            changed = stressed(stress, before, tensors, seed)
            if changed is None:
                return {"ok": True, "applies": False}, []
            drawn, tensors = trees.unflatten(tree, changed), changed
        self.drawn = drawn
        metas, blobs = encode_tensors(tensors)
        return {"ok": True, "applies": True, "tree": tree, "tensors": metas}, list(blobs)

    def restate(self, seed: int) -> _Answer:
        """Other weights for the module that is there, and what they are."""
        import torch

        from musaagent.tools.stress import other_weights

        module = self.model.module
        changed = other_weights(module, torch.Generator().manual_seed(seed))
        if changed is None:
            return {"ok": True, "applies": False}, []
        module.load_state_dict(module.state_dict() | changed)
        state = {k: v.detach() for k, v in self.model.state().items()}
        metas, blobs = encode_tensors(list(state.values()))
        answer = {"ok": True, "applies": True, "tensors": metas, "state_names": list(state)}
        return answer, list(blobs)

    def expected(self, seed: int) -> _Answer:
        """The module's buffers move on as forward moves them, like the candidate's."""
        found = self.model.expected(self.drawn, seed)
        buffers = dict(self.model.module.named_buffers())
        for name, value in found.buffers.items():
            buffers[name].copy_(value)
        exact = list(found.exact) if found.exact is not None else []
        metas, blobs = encode_tensors(found.native + exact + list(found.buffers.values()))
        answer = {
            "ok": True,
            "tree": found.tree,
            "tensors": metas,
            "outputs": len(found.native),
            "has_exact": found.exact is not None,
            "reference": found.reference,
            "buffers": list(found.buffers),
            "changed_inputs": found.changed_inputs,
        }
        return answer, list(blobs)


class _NotBuilt:
    """What `load_inline` returns here: an op file may also hold its own candidate."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"the reference may not run compiled code ({name})")


def _no_compiling() -> None:
    import torch.utils.cpp_extension as extension

    for name in ("load_inline", "load"):
        setattr(extension, name, lambda *args, **kwargs: _NotBuilt())
