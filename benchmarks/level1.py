"""What a finished `musaagent eval --target cuda` says of speed: over eager, and by optimising.

`level1.py RUN [--out FILE]`, RUN being the evaluation's folder. For each op: how the run ended, the
speed-up of the best candidate over eager with its interval, and the best over the first that was
correct. Both are taken as ratios to eager, which was timed in turns with each candidate, so that
another turn's clock does not matter.
"""

import argparse
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from musaagent.evaluation import read_results
from musaagent.result import RunResult
from musaagent.tools.results import FASTER, Speedup, Status
from musaagent.traces.schema import VerdictReached
from musaagent.traces.store import read_trajectory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows = [row_of(chosen.run, result) for result in read_results(chosen.run)]
    for row in rows:
        over = row.get("over_eager")
        speed = f"{over['ratio']:6.2f} ({over['low']:.2f}-{over['high']:.2f})" if over else " " * 20
        gain = f"  optimised {row['gain']:.2f}" if "gain" in row else ""
        print(f"{row['op']:72} {row['status']:10} {row['turns']} turns {speed}{gain}")
    summary = summarised(rows)
    print(json.dumps(summary, indent=1))
    if chosen.out is not None:
        chosen.out.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1))
    return 0


def row_of(folder: Path, result: RunResult) -> dict[str, Any]:
    row: dict[str, Any] = {"op": result.op, "status": str(result.status), "turns": result.turns}
    row |= {"reason": result.reason, "turn_statuses": [str(s) for s in result.turn_statuses]}
    speeds = speeds_of(folder / (result.run or "") / "trajectory.jsonl")
    if result.best_turn in speeds:
        best, first = speeds[result.best_turn], speeds[min(speeds)]
        row |= {"over_eager": best.model_dump(mode="json"), "correct": len(speeds)}
        if len(speeds) > 1:
            row["gain"] = best.ratio / first.ratio
    return row


def speeds_of(path: Path) -> dict[int, Speedup]:
    """Over eager, of the candidates that passed, by turn."""
    if not path.exists():
        return {}
    found = {}
    for event in read_trajectory(path).all(VerdictReached):
        timing = event.verdict.timing
        if event.verdict.status is Status.PASSED and timing is not None:
            over = timing.over("eager")
            if over is not None:
                found[event.turn] = over
    return found


def summarised(rows: list[dict[str, Any]]) -> dict[str, Any]:
    timed = [row["over_eager"] for row in rows if "over_eager" in row]
    gains = [row["gain"] for row in rows if "gain" in row]
    found: dict[str, Any] = {
        "ops": len(rows),
        "statuses": Counter(row["status"] for row in rows),
        "timed": len(timed),
        f"faster_than_eager_by_{FASTER}": sum(t["ratio"] > FASTER for t in timed),
        "surely": sum(t["low"] > FASTER for t in timed),
    }
    if timed:
        found["median_over_eager"] = statistics.median(t["ratio"] for t in timed)
        found["geometric_mean_over_eager"] = statistics.geometric_mean(t["ratio"] for t in timed)
    if gains:
        found |= {
            "optimised": len(gains),
            "median_gain": statistics.median(gains),
            "geometric_mean_gain": statistics.geometric_mean(gains),
            "gained_over_5_percent": sum(gain > 1.05 for gain in gains),
        }
    return found


if __name__ == "__main__":
    sys.exit(main())
