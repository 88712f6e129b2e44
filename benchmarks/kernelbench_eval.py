"""KernelBench's own evaluator over our candidates, the way its batch script runs it.

`kernelbench_eval.py CHECKOUT PAIRS.json BUILD_DIR OUT.json [BUILD_S]`. First all candidates are
compiled side by side by its `build_compile_cache` (documented as `build_cache=True
num_cpu_workers=N`), unless BUILD_DIR holds stock builds already, which took BUILD_S seconds. Then
each is evaluated by its `eval_kernel_against_ref` in a spawned process on the GPU, with the
defaults of its batch script: five correctness trials, 100 timed runs, 180 s of patience. Of the
packages that it imports, those that only its model clients use are replaced by empty ones.
"""

import importlib.util
import json
import multiprocessing
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

_CLIENTS = ("openai", "litellm", "dotenv", "requests", "tqdm")
_TIMEOUT_S = 180
_CORRECT_TRIALS, _TIMED_RUNS = 5, 100


def evaluator(checkout: str) -> Any:
    """The module `kernelbench.eval` of the checkout."""
    sys.path.insert(0, f"{checkout}/src")
    for name in _CLIENTS:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            empty: Any = types.ModuleType(name)
            empty.OpenAI = empty.completion = empty.tqdm = empty.load_dotenv = lambda *a, **k: None
            sys.modules[name] = empty
    import kernelbench.eval

    return kernelbench.eval


def compile_one(job: tuple[str, dict[str, str], str]) -> dict[str, Any]:
    checkout, pair, folder = job
    module = evaluator(checkout)
    start = time.monotonic()
    ok = module.build_compile_cache(pair["candidate"], build_dir=folder)[0]
    return {"name": pair["name"], "seconds": time.monotonic() - start, "ok": ok}


def evaluate_one(job: tuple[str, dict[str, str], str]) -> dict[str, Any]:
    checkout, pair, folder = job
    module = evaluator(checkout)
    import torch

    result = module.eval_kernel_against_ref(
        original_model_src=pair["task"],
        custom_model_src=pair["candidate"],
        num_correct_trials=_CORRECT_TRIALS,
        num_perf_trials=_TIMED_RUNS,
        measure_performance=True,
        timing_method="cuda_event",
        build_dir=folder,
        device=torch.device("cuda:0"),
        backend="cuda",
    )
    if result is None:
        return {"name": pair["name"], "correct": False, "why": "no result"}
    return {
        "name": pair["name"],
        "correct": bool(result.correctness),
        "runtime_ms": float(result.runtime),
        "why": "" if result.correctness else str(result.metadata)[:300],
    }


def main(
    checkout: str, pairs: list[dict[str, str]], builds: Path, build_s: float | None
) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    jobs = [(checkout, pair, str(builds / pair["name"])) for pair in pairs]
    start = time.monotonic()
    compiled = []
    if build_s is None:
        with context.Pool(min(len(jobs), os.cpu_count() or 1)) as pool:
            compiled = pool.map(compile_one, jobs, chunksize=1)
    built = time.monotonic()
    results = []
    for job in jobs:
        begin = time.monotonic()
        with context.Pool(1) as pool:
            try:
                row = pool.apply_async(evaluate_one, (job,)).get(timeout=_TIMEOUT_S)
            except Exception as error:  # what the batch script calls a failed sample
                row = {"name": job[1]["name"], "correct": False, "why": repr(error)[:300]}
        results.append(row | {"seconds": time.monotonic() - begin})
        print(f"kernelbench: {row['name']} {row['correct']} {row.get('why', '')[:80]}", flush=True)
    evaluate_s = time.monotonic() - built
    build_s = built - start if build_s is None else build_s
    return {
        "build_s": build_s,
        "evaluate_s": evaluate_s,
        "seconds": build_s + evaluate_s,
        "compiled": compiled,
        "results": results,
    }


if __name__ == "__main__":
    given = float(sys.argv[5]) if len(sys.argv) > 5 else None
    found = main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3]), given)
    Path(sys.argv[4]).write_text(json.dumps(found, indent=1))
