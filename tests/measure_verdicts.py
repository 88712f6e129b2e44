"""Seconds from a candidate's text to its verdict on the host target, first and cached.

    uv run python tests/measure_verdicts.py [--check] [CANDIDATE ...]

By default over tests/candidates. The cache is an empty one of its own; the process, the fork
server and the precompiled headers are there before the clock starts. `first` builds everything,
`cached` is the same candidate again; both start from no reference process.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.results import Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

CANDIDATES = Path(__file__).parent / "candidates"


def timed(target: HostTarget, path: Path, check: bool) -> tuple[float, Verdict]:
    task, candidate = load_task(path), Candidate(path.read_text(encoding="utf-8"))
    start = time.perf_counter()
    verdict = target.verify(task, candidate, VerifyOptions(seed=1, check=check))
    seconds = time.perf_counter() - start
    target.forget(task)
    return seconds, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("candidates", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="with the checked run")
    given = parser.parse_args()
    paths = given.candidates or sorted(CANDIDATES.glob("*.py"))
    firsts, cached, compiler = [], [], []
    with (
        tempfile.TemporaryDirectory(prefix="musaagent-measure-") as folder,
        HostTarget(Path(folder)) as target,
    ):
        start = time.perf_counter()
        target.warm_up()
        if given.check:
            target.prepare_checks()
        print(f"{os.cpu_count()} cores; prepared in {time.perf_counter() - start:.1f} s")
        print(f"{'candidate':34} {'first':>7} {'compiler':>9} {'cached':>7}  status")
        for path in paths:
            first, verdict = timed(target, path, given.check)
            again, _ = timed(target, path, given.check)
            compiling = verdict.phase_seconds.get("compiler", 0.0)
            firsts.append(first)
            cached.append(again)
            compiler.append(compiling)
            print(f"{path.stem:34} {first:7.2f} {compiling:9.2f} {again:7.2f}  {verdict.status}")
    share = sum(compiler) / sum(firsts)
    print(
        f"median of {len(paths)}: first {statistics.median(firsts):.2f} s, "
        f"cached {statistics.median(cached):.2f} s; the compiler took {share:.0%} of all first times"
    )


if __name__ == "__main__":
    main()
