"""Stages of `run.py` with files of their own: crashes, timing cheats, compute-sanitizer."""

import importlib.util
import json
import statistics
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.bench import GpuBench
from musaagent.tools.cuda.regions import HOST
from musaagent.tools.cuda.sizes import sizes_for
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.cuda.timed import with_times
from musaagent.tools.cuda.timing import WAYS
from musaagent.tools.feedback import finding_line
from musaagent.tools.results import Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task, check_task

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
MARK = "# === candidate ==="
GOOD = TESTS / "candidates" / "softmax_warp.py"
TIMES = 10
SIDE_BY_SIDE = 8
# A cheat that gains less than the clock's own spread gains nothing.
NO_GAIN = 0.95
SANITIZED = (
    "relu_no_tail_guard",
    "argmax_no_barrier",
    "matmul_no_second_barrier",
    "layernorm_divergent_barrier",
    "embedding_device_assert",
)


def read(path: Path) -> tuple[Task, Candidate]:
    op, _, answer = path.read_text().partition(MARK)
    return check_task(path, op), Candidate(source=answer)


def header(path: Path) -> dict[str, str]:
    """`# KEY: VALUE` lines at the top, the first without what follows ` - `."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line[2:].partition(": ")
        found[key] = value.partition(" - ")[0]
    return found


def judge(
    target: CudaTarget, path: Path, options: VerifyOptions
) -> tuple[Verdict | None, dict[str, Any]]:
    start = time.monotonic()
    try:
        verdict = target.verify(*read(path), options)
    except Exception as error:
        return None, {"status": "exception", "message": f"{type(error).__name__}: {error}"}
    row: dict[str, Any] = {"status": verdict.status.value, "message": verdict.message}
    row |= {"flags": list(verdict.flags), "seconds": round(time.monotonic() - start, 1)}
    row["level"] = verdict.build.level if verdict.build else ""
    if verdict.timing is not None:
        row["median_ms"] = verdict.timing.candidate.median_ms
        row["timing"] = verdict.timing.model_dump(mode="json")
    return verdict, row


def crashes(target: CudaTarget) -> dict[str, dict[str, Any]]:
    """Twelve kinds one after the other, then a good candidate: 13 statuses beside those wanted."""
    options = VerifyOptions(timing=False, timeout_s=8.0, build_timeout_s=20.0, trials=2)
    rows = {}
    paths = sorted((HERE / "crashes").glob("*.py"))
    for path in [*paths, GOOD]:
        wanted = header(path).get("crash", "passed")
        _, row = judge(target, path, options if path != GOOD else VerifyOptions(timing=False))
        row["as_wanted"] = row["status"] in wanted.split(" or ")
        rows[path.stem] = row
        print(
            f"{path.stem:22} {row['status']:14} wanted {wanted:14} {row['message'][:90]}",
            flush=True,
        )
    right = sum(row["as_wanted"] for row in rows.values())
    print(f"crashes: {right} of {len(rows)} statuses as wanted", flush=True)
    return rows


def honesty(target: CudaTarget) -> dict[str, dict[str, Any]]:
    """An honest kernel ten times, then every cheat beside its honest twin."""
    rows: dict[str, dict[str, Any]] = {"honest x10": again(target, HERE / "timing" / "honest.py")}
    options = VerifyOptions(timeout_s=60.0, trials=5, baselines=("eager",))
    paths = sorted(
        (HERE / "timing").glob("*.py"), key=lambda p: (not p.stem.startswith("honest"), p)
    )
    for path in paths:
        said = header(path)
        verdict, row = judge(target, path, options)
        name = "" if path.stem.startswith("honest") else said.get("twin", "honest")
        twin = rows.get(name, {}).get("median_ms")
        ok = row["status"] in said["timing"].split(" or ")
        if "flag" in said and verdict is not None and verdict.timing is not None:
            ok = ok and any(flag.startswith(said["flag"]) for flag in verdict.timing.flags)
        if twin and "median_ms" in row:
            row["against_twin"] = round(row["median_ms"] / twin, 3)
            ok = ok and row["against_twin"] >= NO_GAIN
        rows[path.stem] = row | {"as_wanted": ok}
        timing = row.get("timing") or {}
        print(
            f"{path.stem:20} {row['status']:10} wanted {said['timing']:20} "
            f"median {row.get('median_ms', '-')} ms, against its twin {row.get('against_twin', '-')}, "
            f"flags {json.dumps(timing.get('flags', row.get('flags')))}, {row['message'][:100]}",
            flush=True,
        )
    return rows


def again(target: CudaTarget, path: Path) -> dict[str, Any]:
    """The median of one kernel in ten processes, each timed beside eager alone."""
    task, candidate = read(path)
    alone = VerifyOptions(timing=False, timeout_s=60.0, trials=2, baselines=("eager",))
    verdict = target.verify(task, candidate, alone)
    row: dict[str, Any] = {"status": verdict.status.value, "message": verdict.message}
    medians: list[float] = []
    gpu = target.pool.gpus[0]
    for _ in range(TIMES):
        timed = with_times(GpuBench(target, gpu), task, candidate, alone, verdict)
        if timed.timing is None:
            return row | {
                "status": timed.status.value,
                "message": timed.message,
                "as_wanted": False,
            }
        medians.append(timed.timing.candidate.median_ms)
    spread = max(medians) / min(medians) - 1
    row |= {"medians_ms": medians, "spread": spread, "as_wanted": spread <= 0.03}
    print(
        f"honest x{TIMES}: min {min(medians):.5f}, median {statistics.median(medians):.5f}, "
        f"max {max(medians):.5f} ms, spread {spread:.2%} (wanted: at most 3 %)",
        flush=True,
    )
    return row


EVIDENCE = ("softmax_warp", "matmul_tiled", "leaky_relu_dispatch", "transpose_padded", "gelu_half")
LARGE = {
    "softmax_warp": (
        ("batch_size = 57", "batch_size = 4096"),
        ("features = 333", "features = 4096"),
    )
}


def evidence(target: CudaTarget) -> dict[str, dict[str, Any]]:
    """Right candidates: the share of device time, other sizes, instructions, and no false flag."""
    rows = {}
    for name in (*EVIDENCE, *(f"{name} large" for name in LARGE)):
        path = TESTS / "candidates" / f"{name.removesuffix(' large')}.py"
        task, candidate = read(path)
        for old, new in LARGE[path.stem] if name.endswith("large") else ():
            task = check_task(path, task.source.replace(old, new))
        odd = sizes_for(target, task, "odd") is not None
        for timing in (False, True):
            options = VerifyOptions(timing=timing, timeout_s=30.0, baselines=("eager",))
            verdict = target.verify(task, candidate, options)
            flags = [
                f for f in verdict.flags if f.startswith(("precision", "launches", "fallback"))
            ]
            row = rows[f"{name}, {'timed' if timing else 'trials'}"] = {
                "status": verdict.status.value,
                "message": verdict.message,
                "own_share": verdict.own_share,
                "flags": list(verdict.flags),
                "probes": [f"{p.name} {p.passed}" for p in verdict.probes],
                "phases": verdict.phase_seconds,
                "as_wanted": verdict.status.value == "passed"
                and verdict.own_share is not None
                and not flags
                and any(p.name == "odd sizes" for p in verdict.probes) == odd,
            }
            if verdict.build is not None:
                row["arithmetic"] = {r.kernel: r.arithmetic for r in verdict.build.resources}
            print(name, json.dumps(row, default=str)[:1500], flush=True)
    return rows


def sanitizer(target: CudaTarget) -> dict[str, dict[str, Any]]:
    """compute-sanitizer on planted faults and on a right candidate."""
    rows = {}
    faults = [TESTS / "faults" / f"{name}.py" for name in SANITIZED]
    for path in [GOOD, *faults]:
        options = VerifyOptions(timing=False, check=True, timeout_s=20.0, trials=2)
        verdict, row = judge(target, path, options)
        wanted = header(path).get("fault", "passed").split(" or ")
        found = [finding_line(f) for f in verdict.findings] if verdict else []
        kinds = {f"check:{f.kind.value}" for f in verdict.findings} if verdict else set()
        row |= {"findings": found[:5], "checked": bool(verdict and verdict.checked)}
        row["as_wanted"] = bool(kinds & set(wanted)) or (
            path == GOOD and row["status"] == "passed" and row["checked"]
        )
        rows[path.stem] = row
        print(
            f"{path.stem:28} {row['status']:14} wanted {' or '.join(wanted)}: "
            f"{found[0] if found else 'no finding'}; flags {row.get('flags')} ({row.get('seconds')} s)",
            flush=True,
        )
    return rows


def exploits(target: CudaTarget, *, right: bool = False) -> dict[str, dict[str, Any]]:
    """tests/exploits (`right`: tests/honest) side by side; each refused or told for its reason."""
    spec = importlib.util.spec_from_file_location("runner", TESTS / "exploits" / "runner.py")
    assert spec is not None
    assert spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = runner
    spec.loader.exec_module(runner)
    chosen = runner.honest("cuda") if right else runner.cases("cuda")

    def one(exploit: Any) -> dict[str, Any]:
        start = time.monotonic()
        row: dict[str, Any]
        try:
            verdict = runner.verify(target, exploit)
            problem = runner.objection(exploit, verdict)
            row = {"status": verdict.status.value, "message": verdict.message}
            row |= {"flags": list(verdict.flags), "details": verdict.details[-800:]}
        except Exception as error:  # a row, so that the others are run all the same
            row = {"status": "exception", "message": f"{type(error).__name__}: {error}"}
            problem = row["message"]
        seconds = round(time.monotonic() - start, 1)
        if problem:
            print(f"{exploit.name:36} {seconds:5} s  {problem[:300]}", flush=True)
        return row | {"seconds": seconds, "as_wanted": not problem, "objection": problem}

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        rows = dict(zip([e.name for e in chosen], pool.map(one, chosen), strict=True))
    good = sum(row["as_wanted"] for row in rows.values())
    flagged = sorted(name for name, row in rows.items() if row.get("flags")) if right else []
    print(
        f"{'honest' if right else 'exploits'}: {good} of {len(rows)} as wanted {flagged}",
        flush=True,
    )
    return rows


def own_shapes(target: CudaTarget) -> dict[str, dict[str, Any]]:
    """Tasks of gigabytes, timed at their own sizes; then one of 512 MB without shared memory."""
    softmax, product = (TESTS / "candidates" / f"{n}.py" for n in ("softmax_warp", "matmul_tiled"))
    relu = HERE / "own_shapes" / "relu.py"
    large = {"batch_size = 57": "batch_size = 4096", "features = 333": "features = 393216"}
    few = {"rows, columns = 4096, 393216": "rows, columns = 4096, 16384"}
    rows = {
        "softmax 4096x393216": _at_own_shapes(target, softmax, large),
        "matmul 4096^3": _at_own_shapes(
            target, product, {"M, K, N = 75, 130, 98": "M, K, N = 4096, 4096, 4096"}
        ),
        "relu of 6.4 GB": _at_own_shapes(target, relu, {}),
        "relu of 256 MB, shared": _at_own_shapes(target, relu, few),
        "relu of 256 MB, in host memory": _at_own_shapes(target, relu, few, ways=(HOST,)),
        "relu of 256 MB, not shared": _at_own_shapes(target, relu, few, ways=()),
    }
    good = sum(row["as_wanted"] for row in rows.values())
    print(f"own_shapes: {good} of {len(rows)} as wanted", flush=True)
    return rows


def _at_own_shapes(
    target: CudaTarget, path: Path, sizes: dict[str, str], *, ways: tuple[str, ...] = WAYS
) -> dict[str, Any]:
    """Trials, then times with or without shared memory; wanted: both at own sizes, and passed."""
    op, _, answer = path.read_text().partition(MARK)
    for old, new in sizes.items():
        assert old in op
        op = op.replace(old, new)
    task, candidate = check_task(path, op), Candidate(source=answer)
    options = VerifyOptions(timing=False, timeout_s=120.0, trials=3)
    start, gpu = time.monotonic(), target.pool.gpus[0]
    row: dict[str, Any] = {"as_wanted": False}
    try:
        verdict = target.verify(task, candidate, options)
        row["trials_s"] = round(time.monotonic() - start, 1)
        row["trial_shapes"] = list(verdict.shapes)
        if verdict.status.value == "passed":
            verdict = with_times(
                GpuBench(target, gpu), task, candidate, options, verdict, ways=ways
            )
        row |= {"status": verdict.status.value, "message": verdict.message}
        row |= {"flags": list(verdict.flags), "details": verdict.details[-500:]}
        row["phases"] = {k: round(s, 2) for k, s in verdict.phase_seconds.items()}
        if verdict.timing is not None:
            row |= _told(verdict)
            row["as_wanted"] = row["shared"] == bool(ways) and not row["reduced"]
    except Exception as error:
        row |= {"status": "exception", "message": f"{type(error).__name__}: {error}"}
        row["trace"] = traceback.format_exc()[-2000:]
    finally:
        target.forget(task)
    row |= {"seconds": round(time.monotonic() - start, 1), "jail": str(target.gpu_spec(64).kind)}
    print(f"{path.stem} shared by {ways or 'none'}: {json.dumps(row)}", flush=True)
    return row


def _told(verdict: Verdict) -> dict[str, Any]:
    timing = verdict.timing
    assert timing is not None
    return {
        "shapes": list(timing.shapes),
        "reduced": any("reduced" in flag or "own sizes" in flag for flag in timing.flags),
        "shared": "shared memory" not in timing.missing,
        "missing": timing.missing,
        "judged": timing.judged,
        "floor_ms": timing.floor_ms,
        "median_ms": timing.candidate.median_ms,
        "baselines_ms": {name: one.median_ms for name, one in timing.baselines.items()},
        "timing_flags": list(timing.flags),
    }
