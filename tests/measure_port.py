"""Ports CUDA candidates to MUSA, compiles them, and compares the results before and after.

    uv run python tests/measure_port.py --out port.jsonl                   # tests/candidates
    git clone https://github.com/yenhao-huang/KernelBench CHECKOUT
    uv run python tests/measure_port.py --out public.jsonl --limit 34 \\
        CHECKOUT/runs/ralph_codex_cuda_all/generated_kernels --ops CHECKOUT/KernelBench

For each program: the verdict on the host target as it is, with warps of 32 lanes; the same after
`port`, as on an S5000 (32 lanes) and as on an S4000 (128 lanes); and, where an mcc is found
(`PATH=tests/musa/standin/bin:$PATH` for the stand-in of the tests), whether it compiles for the last.
`--limit` takes those with warp operations first, then the others evenly. It goes on where it was
stopped; the table counts what `port` left to a person.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from musaagent.errors import MusaagentError, ToolchainMissing
from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.musa.cards import card_of
from musaagent.tools.musa.target import MusaTarget
from musaagent.tools.musa.toolchain import find_toolkit
from musaagent.tools.port.files import port
from musaagent.tools.port.portability import summary
from musaagent.tools.results import Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

CANDIDATES = Path(__file__).parent / "candidates"
MARK = "# === candidate ==="


def programs(given: Path | None, ops: Path | None, levels: str) -> dict[str, tuple[str, str]]:
    """Op and candidate texts by name; those of a folder are `level_L/problem_N.py`."""
    found = {}
    if given is None or ops is None:
        for path in sorted(CANDIDATES.glob("*.py")):
            op, _, code = path.read_text(encoding="utf-8").partition(MARK)
            if "musa" not in path.stem:
                found[path.stem] = (op, code)
        return found
    for path in sorted(given.glob("level_*/problem_*.py")):
        level, number = path.parent.name[-1], path.stem.partition("_")[2]
        code = path.read_text(encoding="utf-8")
        if level not in levels:
            continue
        for op in (ops / f"level{level}").glob(f"{number}_*.py"):
            if "load_inline" in code:
                found[f"{level}-{number}"] = (op.read_text(encoding="utf-8"), code)
    return found


def chosen(found: dict[str, tuple[str, str]], limit: int) -> list[str]:
    warps = [n for n, (_, code) in found.items() if "__shfl" in code or "__ballot" in code]
    rest = [n for n in found if n not in warps]
    room = max(limit - len(warps), 0)
    if room < len(rest):
        rest = [rest[i * len(rest) // room] for i in range(room)] if room else []
    return (warps + rest)[:limit]


def told(verdict: Verdict) -> dict[str, str]:
    kind = f":{verdict.kind}" if verdict.kind else ""
    return {"status": f"{verdict.status}{kind}", "message": verdict.message[:300]}


class Measure:
    def __init__(self, folder: Path, archs: tuple[str, ...]) -> None:
        self.folder, self.archs = folder, archs
        self.host = HostTarget(compile_for_gpu=False)
        try:
            find_toolkit()
            self.musa: MusaTarget | None = MusaTarget()
        except ToolchainMissing:
            self.musa = None

    def one(self, name: str, op: str, code: str) -> dict[str, Any]:
        op_path, before = self.folder / "op.py", self.folder / "candidate.py"
        op_path.write_text(op, encoding="utf-8")
        before.write_text(code, encoding="utf-8")
        task = load_task(op_path)
        row: dict[str, Any] = {"id": name}
        try:
            options = VerifyOptions(seed=1, trials=1, timeout_s=60)
            row["before"] = told(self.host.verify(task, Candidate(code), options))
            for arch in self.archs:
                ported = port(before, arch)
                text = ported.files[0].ported.text
                row[f"left {arch}"] = summary(ported.remarks)
                lanes = card_of(arch).warp_size
                options = VerifyOptions(seed=1, trials=1, timeout_s=60, arch=arch, warp_size=lanes)
                row[arch] = told(self.host.verify(task, Candidate(text), options))
                if self.musa is not None and arch == self.archs[-1]:
                    build = self.musa.build(task, Candidate(text), options)
                    errors = [d.message for d in build.diagnostics if d.severity == "error"]
                    first = errors[0] if errors else ""
                    if not build.level:
                        first = "nothing was compiled on import"
                    row[f"mcc {arch}"] = {"ok": build.ok and not first, "message": first}
        except MusaagentError as error:
            row["error"] = str(error)
        finally:
            self.host.forget(task)
        return row


def table(rows: list[dict[str, Any]]) -> None:
    same = [r for r in rows if "mp_31" in r and r["mp_31"]["status"] == r["before"]["status"]]
    print(f"\n{len(rows)} programs; the same result before and after at 32 lanes: {len(same)}")
    print(f"  passed before: {sum(r.get('before', {}).get('status') == 'passed' for r in rows)}")
    for arch in ("mp_31", "mp_22"):
        passed = sum(r.get(arch, {}).get("status") == "passed" for r in rows)
        built = [r[f"mcc {arch}"]["ok"] for r in rows if f"mcc {arch}" in r]
        left: Counter[str] = Counter()
        for row in rows:
            left.update(row.get(f"left {arch}", {}))
        mcc = f", {sum(built)} of {len(built)} compile with mcc" if built else ""
        print(f"  {arch}: {passed} pass{mcc}; left to a person: {dict(left) or 'nothing'}")
    for row in rows:
        odd = "error" in row or row["mp_31"]["status"] != row["before"]["status"]
        odd = odd or any(not row[k]["ok"] for k in row if k.startswith("mcc "))
        if odd or row.get("mp_22", row["before"])["status"] != row["before"]["status"]:
            print(json.dumps(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="?", type=Path, help="folder of candidates")
    parser.add_argument("--ops", type=Path, help="folder with level1, level2, level3")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--archs", default="mp_31,mp_22", help="mcc compiles for the last")
    parser.add_argument("--levels", default="123")
    given = parser.parse_args()
    found = programs(given.programs, given.ops, given.levels)
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {row["id"] for row in rows}
    with tempfile.TemporaryDirectory(prefix="musaagent-port-") as folder:
        measure = Measure(Path(folder), tuple(given.archs.split(",")))
        try:
            for name in chosen(found, given.limit):
                if name in done:
                    continue
                row = measure.one(name, *found[name])
                rows.append(row)
                with given.out.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(row) + "\n")
                print(
                    name,
                    row.get("error")
                    or {
                        k: row[k].get("status", row[k].get("ok"))
                        for k in row
                        if k in ("before", "mp_31", "mp_22") or k.startswith("mcc")
                    },
                    flush=True,
                )
        finally:
            measure.host.close()
            if measure.musa is not None:
                measure.musa.close()
    table(rows)


if __name__ == "__main__":
    main()
