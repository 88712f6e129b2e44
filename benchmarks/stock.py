"""One candidate the stock way, in a process of its own: seconds from its text to the loaded module.

`stock.py PAIR.json OUT.json`; PAIR.json has name, task, candidate and `builds`, ours of the same
candidate. Where there is a GPU, both run on the same weights and inputs, and their outputs are
compared bit by bit.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.utils.cpp_extension

SEED = 1234


def main(pair: dict[str, Any]) -> dict[str, Any]:
    task: dict[str, Any] = {"__name__": "task"}
    exec(pair["task"], task)
    init = task["get_init_inputs"]()
    start = time.monotonic()
    stock = module_of(pair["candidate"], pair["name"])
    found: dict[str, Any] = {"name": pair["name"], "seconds": time.monotonic() - start}
    if pair["builds"] and torch.cuda.is_available():
        ours = build_model(with_our_libraries(pair), init)
        torch.manual_seed(SEED)
        inputs = [v.cuda() if isinstance(v, torch.Tensor) else v for v in task["get_inputs"]()]
        with torch.no_grad():
            expected = build_model(stock, init)(*copies(inputs))
            found["same"] = same(expected, ours(*copies(inputs)))
        torch.cuda.synchronize()
    return found


def module_of(source: str, name: str) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "candidate", "__file__": f"{name}.py"}
    exec(compile(source, f"{name}.py", "exec"), module)
    return module


def build_model(module: dict[str, Any], init: list[Any]) -> Any:
    torch.manual_seed(SEED)
    model = module["ModelNew"](*init)
    return model.cuda() if torch.cuda.is_available() else model


def with_our_libraries(pair: dict[str, Any]) -> dict[str, Any]:
    """The same text again, while load_inline gives out what our path built."""
    from musaagent.tools.cuda import bridge
    from musaagent.tools.host.torch_shim_extension import extension_module
    from musaagent.tools.host.torch_shim_state import state
    from musaagent.tools.worker_candidate import load_pybind

    bridge.load_runtime(pair["runtime"])
    builds = iter(pair["builds"])

    def hook(_: Any) -> Any:
        from musaagent.tools.host import bridge as host

        build = next(builds)
        if build["level"] in ("light", "full"):
            return load_pybind(build["module"], build["library"])
        return host.load_library(build["library"], build["functions"])

    state.hook = hook
    real = sys.modules["torch.utils.cpp_extension"]
    fake = extension_module()
    sys.modules["torch.utils.cpp_extension"] = fake
    torch.utils.cpp_extension = fake
    try:
        return module_of(pair["candidate"], pair["name"])
    finally:
        sys.modules["torch.utils.cpp_extension"] = real
        torch.utils.cpp_extension = real


def copies(values: list[Any]) -> list[Any]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def same(first: Any, second: Any) -> dict[str, Any]:
    """Whether all bits agree, and the largest difference."""
    pairs = list(zip(leaves(first), leaves(second), strict=True))
    worst = max((float((a.double() - b.double()).abs().max()) for a, b in pairs if a.numel()))
    bits = all(torch.equal(a, b) for a, b in pairs)
    return {"bits": bits, "largest_difference": worst}


def leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for item in value for leaf in leaves(item)]


if __name__ == "__main__":
    answer = main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")
