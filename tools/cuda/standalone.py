"""A program that runs one passed candidate a few times: what ncu and compute-sanitizer start.

`python -I -c BOOT ... FOLDER`, with job.json and the tensors' bytes in the folder. Libraries are
served in the order in which the candidate asks for them.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

JOB = "job.json"
DONE = "done"
"""An empty file that is made after the last call: the program came to its own end."""
BLOB = "tensors-{}.bin"


def main(folder: Path) -> None:
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    os.environ["CUDA_VISIBLE_DEVICES"] = job["gpu"]
    import torch

    from musaagent.tools import trees
    from musaagent.tools.cuda import bridge
    from musaagent.tools.host.torch_shim_extension import extension_module
    from musaagent.tools.host.torch_shim_state import state
    from musaagent.tools.reference import call_arguments
    from musaagent.tools.weights import align_state
    from musaagent.tools.wire import decode_tensors

    bridge.poisoning = bool(job["poison"])
    bridge.load_runtime(job["runtime"])
    builds = iter(job["builds"])
    state.hook = lambda request: _load(builds)
    extension = extension_module()
    sys.modules["torch.utils.cpp_extension"] = extension
    setattr(torch.utils, "cpp_extension", extension)  # noqa: B010
    path = folder / "candidate.py"
    namespace: dict[str, Any] = {"__name__": "musaagent_candidate", "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    groups = []
    for name in ("construct", "run"):
        sent = job[name]
        blobs = [(folder / BLOB.format(f"{name}-{i}")).read_bytes() for i in range(sent["count"])]
        groups.append(decode_tensors(sent["tensors"], blobs))
    made, inputs = groups
    names = job["construct"]["state_names"]
    split = len(made) - len(names)
    init = trees.unflatten(job["construct"]["tree"], made[:split])
    torch.manual_seed(job["seed"])
    positional, named = call_arguments(init)
    model = namespace["ModelNew"](*positional, **named).cuda()
    arguments = trees.unflatten(job["run"]["tree"], [t.cuda() for t in inputs])
    with torch.no_grad():
        weights = {n: t.cuda() for n, t in zip(names, made[split:], strict=True)}
        align_state(model, weights)
        positional, named = call_arguments(arguments)
        for _ in range(job["calls"]):
            model(*positional, **named)
        torch.cuda.synchronize()
    (folder / DONE).touch()


def _load(builds: Iterator[dict[str, Any]]) -> Any:
    from musaagent.tools.host import bridge
    from musaagent.tools.worker_candidate import load_pybind

    build = next(builds)
    if build["level"] in ("light", "full"):
        return load_pybind(build["module"], build["library"])
    return bridge.load_library(build["library"], build["functions"])
