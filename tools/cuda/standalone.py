"""A program that runs one passed candidate a few times: what ncu and compute-sanitizer start.

`python -I -c BOOT ... FOLDER`, with job.json and the tensors' bytes in the folder. Libraries are
served in the order in which the candidate asks for them.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

JOB = "job.json"
DONE = "done"
"""An empty file that is made after the last call: the program came to its own end."""
BLOB = "tensors-{}.bin"
READY, GO = "ready", "go"
"""With `turn` in the job: the first is made when all is loaded, and the second waited for."""
LONGEST_WAIT_S = 150.0


def main(folder: Path) -> None:
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    from musaagent.tools.cuda import device_api

    device_api.choose(job["device"])
    device_api.see_only(job["gpu"])
    import torch

    from musaagent.tools import trees
    from musaagent.tools.cuda.on_card import put
    from musaagent.tools.reference import call_arguments
    from musaagent.tools.weights import align_state
    from musaagent.tools.wire import decode_tensors

    _install(job)
    device_api.start()
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
    model = put(namespace["ModelNew"](*positional, **named))
    arguments = trees.unflatten(job["run"]["tree"], [put(t) for t in inputs])
    with torch.no_grad():
        weights = {n: put(t) for n, t in zip(names, made[split:], strict=True)}
        align_state(model, weights)
        positional, named = call_arguments(arguments)
        if job["turn"]:
            await_turn(folder)
        for _ in range(job["calls"]):
            model(*positional, **named)
        device_api.api().synchronize()
    (folder / DONE).touch()


def await_turn(folder: Path) -> None:
    """Until the card is this program's. Raises TimeoutError."""
    (folder / READY).touch()
    end = time.monotonic() + LONGEST_WAIT_S
    while not (folder / GO).exists():
        if time.monotonic() > end:
            raise TimeoutError(f"the card was not free within {LONGEST_WAIT_S:.0f} s")
        time.sleep(0.005)


def _install(job: dict[str, Any]) -> None:
    """Loaders that hand out the libraries which are built already."""
    builds = iter(job["builds"])
    if job["device"] == "musa":
        from musaagent.tools.musa.loaders import install_loaders

        install_loaders(lambda request: _load(builds))
        return
    import torch

    from musaagent.tools.cuda import bridge
    from musaagent.tools.host.torch_shim_extension import extension_module
    from musaagent.tools.host.torch_shim_state import state

    bridge.poisoning = bool(job["poison"])
    bridge.load_runtime(job["runtime"])
    state.hook = lambda request: _load(builds)
    extension = extension_module()
    sys.modules["torch.utils.cpp_extension"] = extension
    setattr(torch.utils, "cpp_extension", extension)  # noqa: B010


def _load(builds: Iterator[dict[str, Any]]) -> Any:
    from musaagent.tools.host import bridge
    from musaagent.tools.worker_candidate import load_pybind

    build = next(builds)
    if build["level"] in ("light", "full"):
        return load_pybind(build["module"], build["library"])
    return bridge.load_library(build["library"], build["functions"])
