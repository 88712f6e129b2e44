"""Builds, verdicts, times and profiles on this machine's GPU; each stage writes one JSON file."""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.builder import ALL_LEVELS
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task, check_task

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import stages as stages_of_files  # noqa: E402

TESTS = HERE.parent
MARK = "# === candidate ==="
LIMIT_S = 560.0
TIMED = ("softmax_warp", "layernorm_dynamic_shared", "matmul_tiled", "add_relu_float4")
FAULTS = {
    "add_tail_never_written": {"mismatch"},
    "matmul_type_error": {"compile_error"},
    "gelu_swallowed_compile_error": {"compile_error"},
    "softmax_calls_torch": {"illegal"},
    "matmul_calls_aten": {"illegal"},
    "l2norm_changes_its_input": {"illegal", "mismatch"},
    "embedding_device_assert": {"runtime_error"},
    "rmsnorm_endless_loop": {"timeout"},
    "rowsum_exits_the_process": {"runtime_error"},
    "rowsum_wrong_shape": {"mismatch"},
    "crossentropy_null_pointer": {"runtime_error"},
    "matmul_block_of_1089_threads": {"runtime_error", "mismatch"},
    "gelu_returns_float": {"mismatch"},
    "transpose_allocates_everything": {"oom", "passed"},
}
started = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("stages", nargs="*", default=[])
    chosen = parser.parse_args()
    run = Run(chosen.out)
    with CudaTarget() as target:
        run.target = target
        stages: dict[str, Callable[[], Any]] = {
            "machine": run.machine,
            "right": run.right,
            "timed": run.timed,
            "profile": run.profile,
            "faults": run.faults,
            "crashes": lambda: stages_of_files.crashes(target),
            "honesty": lambda: stages_of_files.honesty(target),
            "sanitizer": lambda: stages_of_files.sanitizer(target),
            "exploits": lambda: stages_of_files.exploits(target),
            "honest": lambda: stages_of_files.exploits(target, right=True),
            "evidence": lambda: stages_of_files.evidence(target),
            "own_shapes": lambda: stages_of_files.own_shapes(target),
            "stock": run.stock,
            "levels": run.levels,
        }
        wanted = chosen.stages or list(stages)
        if not target.pool.gpus:
            print("no NVIDIA GPU here: only `levels` can run")
            wanted = [name for name in wanted if name == "levels"]
        for name in wanted:
            run.stage(name, stages[name])
    print(json.dumps(run.summary, indent=1))
    return 0


class Run:
    def __init__(self, out: Path) -> None:
        self.out = out
        self.target: CudaTarget
        self.summary: dict[str, Any] = {}

    def stage(self, name: str, work: Callable[[], Any]) -> None:
        start = time.monotonic()
        if start - started > LIMIT_S:
            self.summary[name] = "left out: no time"
            return
        try:
            found = work()
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        (self.out / f"{name}.json").write_text(json.dumps(found, indent=1, default=str))
        self.summary[name] = {"seconds": round(time.monotonic() - start, 1), **_brief(found)}
        print(f"== {name}: {json.dumps(self.summary[name], default=str)}", flush=True)

    def machine(self) -> Any:
        """What is here, and the jail that CUDA comes up in."""
        found: dict[str, Any] = {c.name: c.detail for c in self.target.capabilities()}
        with _clock(found, "warm_up_s"):
            self.target.warm_up()
        with _clock(found, "jail_s"):
            found["jail"] = str(self.target.gpu_spec(1024).kind)
        found["gpus"] = [vars(gpu.info) for gpu in self.target.pool.gpus]
        return found

    def stock(self) -> Any:
        """Stock load_inline for one candidate, cold."""
        code = (TESTS / "candidates" / "softmax_warp.py").read_text().split(MARK)[1]
        arch = self.target.pool.gpus[0].info.arch.removeprefix("sm_")
        folder = self.out.resolve() / "extensions"
        env = os.environ | {
            "TORCH_CUDA_ARCH_LIST": f"{arch[:-1]}.{arch[-1]}",
            "TORCH_EXTENSIONS_DIR": str(folder),
        }
        found: dict[str, Any] = {}
        with _clock(found, "seconds"):
            done = subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300
            )
        subprocess.run(["rm", "-rf", str(folder)], check=False)
        return found | {"rc": done.returncode, "stderr": done.stderr[-2000:]}

    def levels(self) -> Any:
        """The same sources at every level, cold and again from the cache."""
        rows = []
        for name in ("softmax_warp", "matmul_tiled"):
            sources = self.sources(name)
            # A full build takes a minute: one is enough.
            for level in ALL_LEVELS if name == "softmax_warp" else ALL_LEVELS[:3]:
                row: dict[str, Any] = {"name": name, "level": level}
                with _clock(row, "cold_s"):
                    build = self.target.builder.build(sources, timeout_s=300, levels=(level,))
                with _clock(row, "cached_s"):
                    self.target.builder.build(sources, timeout_s=300, levels=(level,))
                row |= {"ok": build.ok, "compiler_s": build.compiler_seconds}
                row["log"] = build.log_tail[-1500:]
                rows.append(row)
        return rows

    def sources(self, name: str) -> SourceSet:
        """What the candidate hands to load_inline first."""
        _, candidate = self.read("candidates", name)
        session = self.target.open_session(VerifyOptions(), None)
        try:
            session.setup()
            session.request({"op": "import", "source": candidate.source}, doing="import")
            return session.builds[0][0]
        finally:
            session.close()

    def read(self, folder: str, name: str) -> tuple[Task, Candidate]:
        text = (TESTS / folder / f"{name}.py").read_text()
        op, _, answer = text.partition(MARK)
        return check_task(Path(f"{name}.py"), op), Candidate(source=answer)

    def right(self) -> Any:
        """All right candidates: builds side by side, then verdicts without times."""
        names = sorted(p.stem for p in (TESTS / "candidates").glob("*.py"))
        names = [n for n in names if "musa" not in n]
        rows: dict[str, dict[str, Any]] = {name: {} for name in names}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: self._build("candidates", n, rows[n]), names))
            list(pool.map(lambda n: self._verify("candidates", n, rows[n]), names))
        return rows

    def _build(self, folder: str, name: str, row: dict[str, Any]) -> None:
        try:
            task, candidate = self.read(folder, name)
            with _clock(row, "build_s"):
                build = self.target.build(task, candidate, VerifyOptions())
            row |= {
                "build_ok": build.ok,
                "level": build.level,
                "compiler_s": build.compiler_seconds,
            }
            if not build.ok:
                row["log"] = build.log_tail[-1500:]
        except Exception as error:
            row["build_error"] = f"{type(error).__name__}: {error}"

    def _verify(self, folder: str, name: str, row: dict[str, Any], *, timing: bool = False) -> None:
        if time.monotonic() - started > LIMIT_S:
            row["status"] = "left out"
            return
        try:
            task, candidate = self.read(folder, name)
            options = VerifyOptions(timing=timing, timeout_s=20.0)
            with _clock(row, "verify_s"):
                verdict = self.target.verify(task, candidate, options)
            row |= {"status": verdict.status.value, "message": verdict.message}
            row |= {"flags": list(verdict.flags), "phases": verdict.phase_seconds}
            row["launches"] = [
                f"{x.kernel} {x.grid} {x.block} x{x.count}" for x in verdict.launches
            ]
            if verdict.timing is not None:
                row["timing"] = verdict.timing.model_dump(mode="json")
            if verdict.status.value not in ("passed",):
                row["details"] = verdict.details[-1500:]
        except Exception as error:
            row |= {"status": "exception", "message": f"{type(error).__name__}: {error}"}
            row["trace"] = traceback.format_exc()[-2000:]

    def timed(self) -> Any:
        """Times against eager, torch.compile and a CUDA graph; the first one twice."""
        rows: dict[str, dict[str, Any]] = {}
        for name in (*TIMED, TIMED[0]):
            key = name if name not in rows else f"{name} again"
            rows[key] = {}
            self._verify("candidates", name, rows[key], timing=True)
            print(key, json.dumps(rows[key].get("timing"))[:600], flush=True)
        large = rows["softmax 4096x16384"] = {}
        task, candidate = self.read("candidates", "softmax_warp")
        source = task.source.replace("batch_size = 57", "batch_size = 4096")
        source = source.replace("features = 333", "features = 16384")
        task = check_task(Path("large.py"), source)
        try:
            verdict = self.target.verify(task, candidate, VerifyOptions(timeout_s=60.0, trials=3))
            large |= {"status": verdict.status.value, "message": verdict.message}
            large |= {"phases": verdict.phase_seconds, "seconds": verdict.seconds}
            large["timing"] = verdict.timing.model_dump(mode="json") if verdict.timing else None
        except Exception as error:
            large["message"] = f"{type(error).__name__}: {error}"
        return rows

    def faults(self) -> Any:
        """Faulty candidates one after the other, then a right one."""
        rows: dict[str, dict[str, Any]] = {name: {} for name in FAULTS}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: self._build("faults", n, rows[n]), FAULTS))
        for name, wanted in FAULTS.items():
            self._verify("faults", name, rows[name])
            rows[name]["as_wanted"] = rows[name].get("status") in wanted
        rows["after: softmax_warp"] = {}
        self._verify("candidates", "softmax_warp", rows["after: softmax_warp"])
        return rows

    def profile(self) -> Any:
        rows = {}
        for name in TIMED[:2]:
            task, candidate = self.read("candidates", name)
            try:
                found = self.target.profile(task, candidate, VerifyOptions(timeout_s=30.0))
                rows[name] = found.model_dump(mode="json")
            except Exception as error:
                rows[name] = {"error": f"{type(error).__name__}: {error}"}
        return rows


@contextmanager
def _clock(row: dict[str, Any], key: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        row[key] = round(time.monotonic() - start, 3)


def _brief(found: Any) -> dict[str, Any]:
    """One line a stage for the end of the output."""
    if isinstance(found, dict) and found and all(isinstance(v, dict) for v in found.values()):
        counts: dict[str, int] = {}
        levels: dict[str, int] = {}
        for row in found.values():
            counts[str(row.get("status"))] = counts.get(str(row.get("status")), 0) + 1
            levels[str(row.get("level"))] = levels.get(str(row.get("level")), 0) + 1
        bad = {
            n: r.get("message")
            for n, r in found.items()
            if r.get("status") != "passed" and r.get("as_wanted") is not True
        }
        return {"statuses": counts, "levels": levels, "not_as_wanted": bad}
    if isinstance(found, list):
        return {"rows": [{k: v for k, v in row.items() if k != "log"} for row in found]}
    return {k: v for k, v in found.items() if isinstance(v, str | int | float)}


if __name__ == "__main__":
    sys.exit(main())
