"""Reads what `ptxas -v` reports of each kernel: registers, spills, shared memory, stack."""

import re
import shutil
import subprocess
from collections.abc import Sequence

from musaagent.tools.results import KernelResources

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[\w$]+)' for '(?P<arch>\w+)'")
_PROPERTIES = re.compile(r"Function properties for (?P<name>[\w$]+)")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<bytes>\d+)(?:\+\d+)? bytes smem")


def parse_ptxas(text: str) -> tuple[KernelResources, ...]:
    """One record a kernel, in the order of the report, with demangled names."""
    found: list[dict[str, int | str]] = []
    for line in text.splitlines():
        if entry := _ENTRY.search(line):
            found.append({"kernel": entry["name"], "arch": entry["arch"]})
        elif not found:
            continue
        elif properties := _PROPERTIES.search(line):
            # Functions that were not inlined report theirs too; only the kernel's own count.
            found[-1]["own"] = int(properties["name"] == found[-1]["kernel"])
        elif frame := _FRAME.search(line):
            if found[-1].get("own"):
                found[-1] |= {k: int(v) for k, v in frame.groupdict().items()}
        elif used := _USED.search(line):
            shared = _SHARED.search(line)
            found[-1]["registers"] = int(used["registers"])
            found[-1]["shared"] = int(shared["bytes"]) if shared else 0
    complete = [entry for entry in found if "registers" in entry]
    names = demangle([str(entry["kernel"]) for entry in complete])
    return tuple(_record(e, name) for e, name in zip(complete, names, strict=True))


def _record(entry: dict[str, int | str], name: str) -> KernelResources:
    return KernelResources(
        kernel=name,
        arch=str(entry["arch"]),
        registers=int(entry["registers"]),
        spill_store_bytes=int(entry.get("stores", 0)),
        spill_load_bytes=int(entry.get("loads", 0)),
        static_shared_bytes=int(entry.get("shared", 0)),
        stack_bytes=int(entry.get("stack", 0)),
    )


def demangle(names: Sequence[str]) -> list[str]:
    """`_Z1kIfEvPT_` as `k<float>`: without result and parameters. As it is without a demangler."""
    tool = shutil.which("c++filt") or shutil.which("cu++filt")
    if tool is None or not names:
        return list(names)
    result = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True)
    lines = result.stdout.splitlines()
    if result.returncode != 0 or len(lines) != len(names):
        return list(names)
    return [_short(line) for line in lines]


def _short(signature: str) -> str:
    """The name and template arguments of a demangled function."""
    end = len(signature)
    depth = 0
    for index in range(len(signature) - 1, -1, -1):  # back over the parameter list
        char = signature[index]
        depth += (char == ")") - (char == "(")
        if char == "(" and depth == 0:
            end = index
            break
    start, angle = 0, 0
    for index in range(end):  # over the result type, if a template gives one
        char = signature[index]
        angle += (char in "<(") - (char in ">)")
        if char == " " and angle == 0:
            start = index + 1
    return signature[start:end] or signature


def base_name(name: str) -> str:
    """`void ns::k<float>(float*)` -> `k`."""
    plain = name.replace("(anonymous namespace)::", "").split("<")[0].split("(")[0]
    return plain.rpartition("::")[2].split()[-1] if plain.split() else name
