"""The MUSA candidates of a public KernelBench fork, unmodified, on the host target.

    git clone https://github.com/Young-Lord/KernelBench CHECKOUT
    uv run python tests/measure_musa_level1.py CHECKOUT --out results.jsonl [--jobs N] [--only N,N]

`CHECKOUT/KernelBench/level1_musa/problem_N/model_new.py` is judged beside the op
`CHECKOUT/KernelBench/level1/N_*.py` at sizes that a CPU can run, with warps of 128 lanes as on an
S4000. It goes on where it was stopped; with results for every candidate it only prints the table.
A candidate that checks for the sizes of its problem refuses the smaller ones: `--resize` judges
those again with the same constants changed in its text, and says so in the table.
"""

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from musaagent.batch import verify_batch
from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.musa.cards import card_of
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

FOLDER = "KernelBench/level1_musa"


def rows(checkout: Path, only: set[int]) -> list[dict[str, str]]:
    found = []
    for folder in sorted((checkout / FOLDER).iterdir(), key=lambda p: _number(p.name)):
        number = _number(folder.name)
        ops = list((checkout / "KernelBench" / "level1").glob(f"{number}_*.py"))
        candidate = folder / "model_new.py"
        if len(ops) != 1 or not candidate.is_file() or (only and number not in only):
            continue
        found.append({"id": str(number), "task": str(ops[0]), "candidate": str(candidate)})
    return found


def _number(name: str) -> int:
    match = re.search(r"\d+", name)
    return int(match[0]) if match else 0


def judge(given: argparse.Namespace) -> None:
    only = {int(n) for n in given.only.split(",")} if given.only else set()
    chosen = rows(given.checkout.resolve(), only)
    if not chosen:
        raise SystemExit(f"{given.checkout}: no {FOLDER}/problem_N/model_new.py beside its op")
    lanes = card_of(given.arch).warp_size
    options = VerifyOptions(
        seed=given.seed, trials=given.trials, warp_size=lanes, arch=given.arch, timeout_s=120
    )
    with (
        tempfile.TemporaryDirectory(prefix="musaagent-level1-") as scratch,
        HostTarget(compile_for_gpu=False) as target,
    ):
        manifest = Path(scratch) / "manifest.jsonl"
        manifest.write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")
        verify_batch(manifest, given.out, target, options, jobs=given.jobs, observer=tell)
        if given.resize:
            resize(chosen, given.out, target, options)


def resize(
    chosen: list[dict[str, str]], out: Path, target: HostTarget, options: VerifyOptions
) -> None:
    """Judge again what refused other sizes, with its own sizes changed as the op's were."""
    results = {r["id"]: r for r in map(json.loads, out.read_text().splitlines())}
    for row in chosen:
        verdict = results[row["id"]].get("verdict") or {}
        if verdict.get("status") != "runtime_error" or "must have shape" not in verdict["message"]:
            continue
        task = load_task(row["task"])
        text = Path(row["candidate"]).read_text(encoding="utf-8")
        changed = dict(target.plan(task).scaling.values())
        for old, new in changed.items():
            text = re.sub(rf"(?<![\w.]){old}(?![\w.])", str(new), text)
        again = target.verify(task, Candidate(text), options)
        sizes = ", ".join(f"{old} -> {new}" for old, new in changed.items())
        print(f"{row['id']:>4} with {sizes} in its text: {again.status} {again.message[:150]}")


def tell(result: dict[str, Any]) -> None:
    verdict = result.get("verdict") or {}
    message = verdict.get("message") or result.get("error") or ""
    print(f"{result['id']:>4} {result['status']:<16} {result['seconds']:6.1f} s  {message[:150]}")


def table(out: Path) -> None:
    results = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    built = sum(1 for r in results if ((r.get("verdict") or {}).get("build") or {}).get("ok"))
    counts = Counter(r["status"] for r in results)
    print(
        f"\n{len(results)} candidates: {built} build; "
        + ", ".join(f"{n} {status}" for status, n in counts.most_common())
    )
    for result in sorted(results, key=lambda r: int(r["id"])):
        if result["status"] != "passed":
            tell(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="results, one line each")
    parser.add_argument("--only", default="", help="problem numbers, with commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", choices=("mp_21", "mp_22", "mp_31"), default="mp_22")
    parser.add_argument("--resize", action="store_true", help="see above")
    given = parser.parse_args()
    judge(given)
    table(given.out)


if __name__ == "__main__":
    main()
