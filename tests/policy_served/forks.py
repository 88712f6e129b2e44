"""Forks a process for each job on stdin: solve or resume with the served policy and the toy target.

Prints its pid, and its wait status when it is gone. What takes seconds to import is imported once.
"""

import importlib
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def load_toy() -> Any:
    path = Path(__file__).parent.parent / "agent" / "toy.py"
    spec = importlib.util.spec_from_file_location("toy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def work(toy: Any, folder: str, base_url: str) -> None:
    from musaagent.app import resume, solve
    from musaagent.policies.settings import ServedSettings

    run = Path(folder) / "run"
    if (run / "trajectory.jsonl").exists() and (run / "trajectory.jsonl").read_bytes().count(b"\n"):
        result = resume(run, target=toy.ToyTarget())
    else:
        served = ServedSettings(base_url=base_url, model="toy-model")
        op = Path(folder) / "double.py"
        result = solve(
            op, target=toy.ToyTarget(), policy="served", served=served, out=run, force=True, seed=3
        )
    (Path(folder) / "told.json").write_text(result.model_dump_json())


def main() -> None:
    modules = ("langgraph.checkpoint.sqlite", "langsmith.run_helpers", "musaagent.graph")
    for name in (*modules, "openai", "openai.resources.chat", "musaagent.policies.served"):
        importlib.import_module(name)
    toy = load_toy()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                work(toy, **json.loads(line))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


if __name__ == "__main__":
    main()
