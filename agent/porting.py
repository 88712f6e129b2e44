"""`musaagent port`: what was changed, what is left to a person, and the exit code for CI."""

import argparse
from pathlib import Path

from musaagent import display
from musaagent.cli import EXIT_NOT_PASSED, EXIT_OK
from musaagent.result import as_json
from musaagent.tools.port.files import PortedFile, Porting, default_out, port, write
from musaagent.tools.port.portability import summary

_MOST_LINES = 40


def port_files(chosen: argparse.Namespace) -> int:
    """Exit code 1 where something is left to a person. Raises UsageError for bad input."""
    path = Path(chosen.path)
    porting = port(path, chosen.arch)
    written: list[Path] = []
    if chosen.out is not None or not chosen.diff:
        out = Path(chosen.out) if chosen.out is not None else default_out(path)
        written = write(porting, out, force=chosen.force)
    if chosen.json:
        display.print_json(_as_object(porting, path, written, with_diff=chosen.diff))
    elif chosen.diff:
        for file in porting.files:
            display.show_raw(file.diff())
        for line in _report(porting, written):
            display.say_error(line)
    else:
        display.show_text("\n".join(_report(porting, written)))
    return EXIT_OK if porting.clean else EXIT_NOT_PASSED


def _report(porting: Porting, written: list[Path]) -> list[str]:
    changes = sum(len(file.ported.changes) for file in porting.files)
    changed = sum(1 for file in porting.files if file.changed)
    lines = [
        f"{changes} changes in {changed} of {len(porting.files)} files, for {porting.arch}"
        f" (names by {porting.tables})"
    ]
    lines += [f"  wrote {path}" for path in written[:_MOST_LINES]]
    remarks = porting.remarks
    for remark in remarks[:_MOST_LINES]:
        place = f"{remark.source}:{remark.line}" if remark.line else remark.source
        lines.append(f"{place}: {remark.severity}: {remark.message} [{remark.kind}]")
    if len(remarks) > _MOST_LINES:
        lines.append(f"and {len(remarks) - _MOST_LINES} more (--json has all)")
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(summary(remarks).items()))
    lines.append(f"left to a person: {counts}" if counts else "nothing is left to a person")
    return lines


def _as_object(
    porting: Porting, path: Path, written: list[Path], *, with_diff: bool
) -> dict[str, object]:
    return {
        "status": "clean" if porting.clean else "remarks",
        "path": str(path),
        "arch": porting.arch,
        "tables": porting.tables,
        "written": [str(place) for place in written],
        "counts": summary(porting.remarks),
        "files": [_file(file, with_diff) for file in porting.files],
    }


def _file(file: PortedFile, with_diff: bool) -> dict[str, object]:
    told: dict[str, object] = {
        "path": str(file.path),
        "target": str(file.target),
        "changes": [as_json(change) for change in file.ported.changes],
        "remarks": [as_json(remark) for remark in file.ported.remarks],
    }
    return told | ({"diff": file.diff()} if with_diff else {})
