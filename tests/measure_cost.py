"""What a full verification costs over one plain correctness run, over the candidates of tests/honest.

    uv run python tests/measure_cost.py [--target cuda] [--check] [NAME ...]

Plain: import, construct, one trial. Full: five trials and all probes (`--check`: the checked run as
well). Both with the build in the cache and the task's reference processes started; each is done
twice and the second time counts.
"""

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.host.target import HostTarget
from musaagent.tools.results import Verdict
from musaagent.tools.target import Target, VerifyOptions

TESTS = Path(__file__).resolve().parent
_OVERLAPPED = ("compiler",)
"""Phases that lie inside others."""


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("runner", TESTS / "exploits" / "runner.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["runner"] = module
    spec.loader.exec_module(module)
    return module


def timed(target: Target, candidate: Any, options: VerifyOptions) -> tuple[float, Verdict]:
    for _ in range(2):
        start = time.perf_counter()
        verdict = target.verify(candidate.load(), Candidate(candidate.source), options)
        seconds = time.perf_counter() - start
    return seconds, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", choices=("host", "cuda"), default="host")
    parser.add_argument("--check", action="store_true", help="with the checked run")
    given = parser.parse_args()
    candidates = [
        c for c in runner().honest(given.target) if not given.names or c.name in given.names
    ]
    ratios, plains, fulls = [], [], []
    shares: Counter[str] = Counter()
    with HostTarget(compile_for_gpu=False) if given.target == "host" else CudaTarget() as target:
        target.warm_up()
        print(f"{os.cpu_count()} cores, target {given.target}")
        print(f"{'candidate':34} {'plain':>7} {'full':>7} {'ratio':>6}  status")
        for candidate in candidates:
            plain, _ = timed(
                target, candidate, VerifyOptions(seed=1, trials=1, probes=False, timing=False)
            )
            full, verdict = timed(
                target, candidate, VerifyOptions(seed=1, check=given.check, timing=False)
            )
            plains.append(plain)
            fulls.append(full)
            ratios.append(full / plain)
            known = {k: s for k, s in verdict.phase_seconds.items() if k not in _OVERLAPPED}
            shares.update({k: s / full for k, s in known.items()})
            shares["rest"] += 1 - sum(known.values()) / full
            print(
                f"{candidate.name:34} {plain:7.2f} {full:7.2f} {full / plain:6.1f}  {verdict.status}"
            )
    print(
        f"median of {len(candidates)}: plain {statistics.median(plains):.2f} s, full"
        f" {statistics.median(fulls):.2f} s, ratio {statistics.median(ratios):.1f}"
    )
    total = len(candidates)
    print("shares: " + ", ".join(f"{k} {s / total:.0%}" for k, s in shares.most_common()))


if __name__ == "__main__":
    main()
