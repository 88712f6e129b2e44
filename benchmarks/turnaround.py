"""What the cuda target is measured by on a GPU machine; every figure in docs/performance.md is its.

`turnaround.py --out DIR [--kernelbench CHECKOUT] [STAGE ...]`. Stages, each writing DIR/STAGE.json:

turnaround  seconds from text to loaded module, stock load_inline against ours, nothing cached; all
            candidates at once on both sides, and three of them with the machine to themselves
throughput  judged and timed candidates a minute, ours against KernelBench's own evaluator
cards       the same, ours alone, with one card and with all: only where it is asked for
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from candidates import Pair, pairs

from musaagent.batch import verify_batch
from musaagent.tools.cuda.devices import GpuInfo, find_gpus
from musaagent.tools.cuda.programs import loadable
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.cuda.toolchain import DEFAULT_ARCH
from musaagent.tools.target import BASELINES, VerifyOptions

HERE = Path(__file__).resolve().parent
QUIET = ("softmax_warp", "matmul_tiled", "layernorm_dynamic_shared")
STOCK_LIMIT_S = 400


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--kernelbench", type=Path, help="a checkout of ScalingIntelligence/KernelBench"
    )
    parser.add_argument("--only", default="", help="names of candidates, with commas between")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="without the three that build alone, and with eager as the one baseline",
    )
    parser.add_argument("stages", nargs="*", default=[])
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    scratch = chosen.out.resolve() / "scratch"
    only = chosen.only.split(",") if chosen.only else []
    bench = Benchmark(scratch, chosen.kernelbench, only, chosen.quick)
    stages: dict[str, Callable[[], Any]] = {
        "machine": bench.machine,
        "turnaround": bench.turnaround,
        "throughput": bench.throughput,
        "cards": bench.cards,
    }
    try:
        for name in chosen.stages or [name for name in stages if name != "cards"]:
            found = stages[name]()
            (chosen.out / f"{name}.json").write_text(json.dumps(found, indent=1))
            print(f"== {name}: {json.dumps(found.get('summary', found))}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


class _On(CudaTarget):
    """A target with some of this machine's cards."""

    def __init__(self, gpus: tuple[GpuInfo, ...], cache: Path, *, jobs: int) -> None:
        self.gpus = gpus
        super().__init__(cache, jobs=jobs)

    def find_cards(self) -> tuple[GpuInfo, ...]:
        return self.gpus


class Benchmark:
    def __init__(
        self, scratch: Path, kernelbench: Path | None, only: list[str], quick: bool
    ) -> None:
        self.scratch = scratch
        self.kernelbench = kernelbench
        self.pairs = [pair for pair in pairs() if not only or pair.name in only]
        self.quick = quick
        self.quiet = [] if quick else [pair for pair in self.pairs if pair.name in QUIET]
        self.stock_s: float | None = None
        """How long the stock builds of all candidates took, started at once."""

    def target(
        self, name: str, gpus: tuple[GpuInfo, ...] | None = None
    ) -> tuple[CudaTarget, float]:
        """One with an empty cache, and how long it took to make what every candidate needs."""
        cache = self.scratch / name
        target = _On(gpus or find_gpus(), cache, jobs=len(self.pairs))
        start = time.monotonic()
        target.warm_up()
        if target.pool.gpus:
            target.gpu_spec(1024)  # tries the jails
        return target, time.monotonic() - start

    def machine(self) -> dict[str, Any]:
        import torch

        with CudaTarget(self.scratch / "machine") as target:
            found = {c.name: c.detail for c in target.capabilities()}
        return found | {"cores": os.cpu_count(), "torch": torch.__version__}

    # ---- text to loaded module

    def turnaround(self) -> dict[str, Any]:
        target, warm_up_s = self.target("turnaround")
        with target:
            alone = [self.ours(target, pair) for pair in self.quiet]
            shutil.rmtree(self.scratch / "turnaround" / "modules", ignore_errors=True)
            with ThreadPoolExecutor(len(self.pairs)) as pool:
                rows = list(pool.map(lambda p: self.ours(target, p), self.pairs))
            runtime = str(target.builder.runtime_library())
            builds = {row["name"]: row["builds"] for row in rows}
            stock_alone = self.stock("alone", self.quiet, {}, runtime)
            stock = self.stock("all", self.pairs, builds, runtime)
        self.stock_s = max((row.get("seconds", 0.0) for row in stock.values()), default=None)
        for row in rows:
            row["stock"] = stock[row["name"]]
        for row in alone:
            row["stock"] = stock_alone[row["name"]]
        summary = {
            "all_at_once": ratios(rows),
            "three_at_once": ratios(alone),
            "levels": Counter(level for r in rows for level in r["levels"]),
            "compilers": Counter(engine for r in rows for engine in r["engines"]),
            **agreement(rows),
            "once_for_the_machine_s": warm_up_s,
        }
        return {"summary": summary, "rows": rows, "alone": alone}

    def ours(self, target: CudaTarget, pair: Pair) -> dict[str, Any]:
        """The clock runs as for stock: not over the start of the process that loads the module."""
        gpu = target.pool.gpus[0] if target.pool.gpus else None
        begin = time.monotonic()
        session = target.open_session(VerifyOptions(), gpu)
        try:
            session.setup()
            start = time.monotonic()
            session.request(
                {"op": "import", "source": pair.candidate}, doing="import", timeout_s=900
            )
            end = time.monotonic()
            return {
                "name": pair.name,
                "ok": all(build.ok for _, build in session.builds),
                "seconds": end - start,
                "with_process_s": end - begin,
                "levels": [build.level for _, build in session.builds],
                "engines": [build.real_compile for _, build in session.builds],
                "builds": loadable(session.builds),
            }
        finally:
            session.close()

    def stock(
        self, name: str, chosen: list[Pair], builds: dict[str, Any], runtime: str
    ) -> dict[str, dict[str, Any]]:
        """All of them at once, each in a process and an extensions folder of its own."""

        def one(pair: Pair) -> dict[str, Any]:
            folder = self.scratch / f"stock-{name}" / pair.name
            folder.mkdir(parents=True)
            job, answer = folder.with_suffix(".json"), folder.with_suffix(".answer")
            job.write_text(
                json.dumps({**vars(pair), "builds": builds.get(pair.name), "runtime": runtime})
            )
            line = [sys.executable, str(HERE / "stock.py"), str(job), str(answer)]
            try:
                done = subprocess.run(
                    line,
                    env=stock_environment(folder),
                    capture_output=True,
                    text=True,
                    timeout=STOCK_LIMIT_S,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"no end after {STOCK_LIMIT_S} s"}
            if not answer.exists():
                return {"error": done.stderr[-500:]}
            found: dict[str, Any] = json.loads(answer.read_text())
            return found

        with ThreadPoolExecutor(max(len(chosen), 1)) as pool:
            return {p.name: row for p, row in zip(chosen, pool.map(one, chosen), strict=True)}

    # ---- candidates a minute

    def throughput(self) -> dict[str, Any]:
        # As much as KernelBench times, and then everything that we do by default.
        found: dict[str, Any] = {"ours": self.our_batch("eager")}
        summary = {k: v for k, v in found["ours"].items() if k != "rows"}
        if not self.quick:
            found["ours_all"] = everything = self.our_batch()
            summary["with_all_baselines"] = {k: v for k, v in everything.items() if k != "rows"}
        print(f"ours: {json.dumps(summary)}", flush=True)
        # The other side takes minutes, and may not come to its end.
        (self.scratch.parent / "throughput-ours.json").write_text(json.dumps(found, indent=1))
        if self.kernelbench is not None:
            theirs = found["kernelbench"] = self.their_batch()
            right = sum(row["correct"] for row in theirs["results"])
            per_minute = 60 * right / theirs["seconds"]
            summary |= {
                "kernelbench_seconds": theirs["seconds"],
                "kernelbench_build_s": theirs["build_s"],
                "kernelbench_correct": right,
                "kernelbench_per_minute": per_minute,
                "ratio": summary["per_minute"] / per_minute if right else None,
            }
        return {"summary": summary, **found}

    def cards(self) -> dict[str, Any]:
        """Builds are in the cache on both sides: what is compared is the cards' part."""
        gpus = find_gpus()
        found, summary = {}, {"cards": len(gpus)}
        for name, chosen in (("build", gpus), ("one", gpus[:1]), ("all", gpus)):
            found[name] = batch = self.our_batch("eager", gpus=chosen, name="cards")
            summary[name] = {k: v for k, v in batch.items() if k != "rows"}
        summary["ratio"] = found["all"]["per_minute"] / found["one"]["per_minute"]
        return {"summary": summary, **found}

    def our_batch(
        self, *baselines: str, gpus: tuple[GpuInfo, ...] | None = None, name: str = ""
    ) -> dict[str, Any]:
        """`name`: of a cache that is kept for the next batch."""
        folder = self.scratch / f"batch-{name or len(baselines)}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with (folder / "manifest.jsonl").open("w") as manifest:
            for pair in self.pairs:
                (folder / f"{pair.name}_task.py").write_text(pair.task)
                (folder / f"{pair.name}.py").write_text(pair.candidate)
                row = {
                    "id": pair.name,
                    "task": f"{pair.name}_task.py",
                    "candidate": f"{pair.name}.py",
                }
                manifest.write(json.dumps(row) + "\n")
        target, warm_up_s = self.target(folder.name + "-cache", gpus)
        results = folder / "results.jsonl"
        options = VerifyOptions(baselines=baselines or BASELINES)
        with target:
            start = time.monotonic()
            counts = verify_batch(
                folder / "manifest.jsonl", results, target, options, jobs=len(self.pairs)
            )
            seconds = time.monotonic() - start
        rows = [json.loads(line) for line in results.read_text().splitlines()]
        timed = [r for r in rows if r["verdict"] and r["verdict"].get("timing")]
        return {
            "seconds": seconds,
            "statuses": counts,
            "timed": len(timed),
            "per_minute": 60 * len(timed) / seconds,
            "once_for_the_machine_s": warm_up_s,
            "rows": rows,
        }

    def their_batch(self) -> dict[str, Any]:
        folder = self.scratch / "kernelbench"
        folder.mkdir(parents=True)
        (folder / "pairs.json").write_text(json.dumps([vars(pair) for pair in self.pairs]))
        line = [sys.executable, str(HERE / "kernelbench_eval.py"), str(self.kernelbench)]
        # The stock builds of the stage before are what it would make: the same text and flags.
        builds = folder / "builds" if self.stock_s is None else self.scratch / "stock-all"
        line += [str(folder / "pairs.json"), str(builds), str(folder / "out.json")]
        line += [] if self.stock_s is None else [str(self.stock_s)]
        subprocess.run(line, env=stock_environment(folder), check=True)
        found: dict[str, Any] = json.loads((folder / "out.json").read_text())
        return found


def ratios(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Stock's seconds over ours by candidate; those that stock did not build are named."""
    both = [r for r in rows if r["ok"] and "seconds" in r["stock"]]
    found: dict[str, Any] = {"candidates": len(rows), "built_by_both": len(both)}
    found["stock_failed"] = {r["name"]: r["stock"]["error"] for r in rows if "error" in r["stock"]}
    if both:
        each = sorted(r["stock"]["seconds"] / r["seconds"] for r in both)
        found |= {
            "median_ratio": statistics.median(each),
            "lowest_ratio": each[0],
            "median_ours_s": statistics.median(r["seconds"] for r in both),
            "median_stock_s": statistics.median(r["stock"]["seconds"] for r in both),
        }
    return found


def agreement(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many outputs were the same to the bit with both builds, and what the others differ by."""
    compared = {r["name"]: r["stock"]["same"] for r in rows if "same" in r["stock"]}
    other = {n: s["largest_difference"] for n, s in compared.items() if not s["bits"]}
    return {"compared": len(compared), "not_the_same_bits": other}


def stock_environment(folder: Path) -> dict[str, str]:
    """Only the card's own architecture, which is what torch would find and quicker than asking."""
    environment = dict(os.environ)
    environment["TORCH_EXTENSIONS_DIR"] = str(folder)
    arch = next((gpu.arch for gpu in find_gpus()), DEFAULT_ARCH).removeprefix("sm_")
    environment["TORCH_CUDA_ARCH_LIST"] = f"{arch[:-1]}.{arch[-1]}"
    return environment


if __name__ == "__main__":
    sys.exit(main())
