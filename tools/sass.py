"""What the kernels of a real build compute in, read from their machine code (SASS).

The source can say anything; the instructions cannot. `cuobjdump` takes a cubin or a library apart;
where only `nvdisasm` is found, cubins alone can be read.
"""

import functools
import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.host.toolchain import nvidia_wheels
from musaagent.tools.ptxas import demangle
from musaagent.tools.results import KernelResources

SASS_TEXT = "sass.txt"
_MOST_NAMES = 4
"""Of one kind of arithmetic; the rest adds nothing."""
_HEAD = re.compile(r"^\s*(?:Function : |\.text\.)(?P<name>[\w$.]+?):?\s*$")
_LINE = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?P\w+\s+)?(?P<name>[A-Z][\w.]*)(?P<rest>[^;]*);"
)
_TENSOR_CORES = {
    **dict.fromkeys(("HMMA", "HGMMA"), "half"),
    **dict.fromkeys(("QMMA", "QGMMA"), "fp8"),
    **dict.fromkeys(("IMMA", "IGMMA"), "int8"),
    "DMMA": "double",
}
_HALF_UNITS = frozenset({"HADD2", "HMUL2", "HFMA2", "HMNMX2", "HSET2", "HSETP2"})
_DOUBLE_UNITS = frozenset({"DADD", "DMUL", "DFMA", "DSETP"})
_CONVERSIONS = frozenset({"F2F", "F2FP", "I2F", "F2I"})
ADDRESS = "address"
_REGISTER = re.compile(r"\bU?R\d+|\bc\[|\bcx\[|\bdesc\[")


@dataclass(frozen=True)
class Disassembler:
    """`program` is cuobjdump, which calls the nvdisasm of `folder`, or nvdisasm itself."""

    program: Path
    folder: Path

    @property
    def reads_libraries(self) -> bool:
        return self.program.name == "cuobjdump"

    def command(self, file: str) -> str:
        """A shell command that writes SASS_TEXT, and never fails."""
        option = "-sass " if self.reads_libraries else ""
        path = f'PATH={shlex.quote(str(self.folder))}:"$PATH"'
        line = f"{path} {shlex.quote(str(self.program))} {option}{shlex.quote(file)}"
        return f"{{ {line} >{SASS_TEXT} 2>/dev/null || :; }}"

    @property
    def identity(self) -> str:
        return f"{self.program} {self.program.stat().st_size}"


@functools.cache
def find_disassembler() -> Disassembler | None:
    """On the PATH, in $CUDA_HOME, in NVIDIA's or Triton's packages, or in the usual place."""
    folders = list(_folders())
    nvdisasm = next((f / "nvdisasm" for f in folders if _runs(f / "nvdisasm")), None)
    if nvdisasm is None:
        return None
    for folder in folders:
        if _runs(folder / "cuobjdump"):
            own = folder if _runs(folder / "nvdisasm") else nvdisasm.parent
            return Disassembler(folder / "cuobjdump", own)
    return Disassembler(nvdisasm, nvdisasm.parent)


def _folders() -> Iterator[Path]:
    for name in ("cuobjdump", "nvdisasm"):
        if found := shutil.which(name):
            yield Path(found).parent
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if root := os.environ.get(variable):
            yield Path(root) / "bin"
    for place in nvidia_wheels():
        yield from sorted(place.glob("*/bin"))
    triton = importlib.util.find_spec("triton")
    for package in (triton.submodule_search_locations or ()) if triton else ():
        yield Path(package) / "backends" / "nvidia" / "bin"
    yield Path("/usr/local/cuda/bin")


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


Arithmetic = dict[str, tuple[str, ...]]
"""Kind (`half`, `bfloat16`, `tf32`, `fp8`, `int8`, `double`, `approximate`) to instructions; and
`address` to calls of functions by their address."""


def parse_sass(text: str) -> dict[str, Arithmetic]:
    """By kernel, in ptxas's short names: the kinds that it computes in, plain float32 left out."""
    found: dict[str, dict[str, list[str]]] = {}
    kernel: dict[str, list[str]] = {}
    for line in text.splitlines():
        if head := _HEAD.match(line):
            kernel = found.setdefault(head["name"], {})
        elif (match := _LINE.match(line)) and (kind := kind_of(match["name"], match["rest"])):
            seen = kernel.setdefault(kind, [])
            if match["name"] not in seen and len(seen) < _MOST_NAMES:
                seen.append(match["name"])
    return {
        name: {kind: tuple(kinds[kind]) for kind in sorted(kinds)}
        for name, kinds in zip(demangle(list(found)), found.values(), strict=True)
    }


def kind_of(name: str, operands: str = "") -> str:
    """What an instruction computes in; '' for float32, integers, and all that moves or jumps."""
    unit, *types = name.split(".")
    if unit == "CALL":  # CALL.ABS is of the device's own printf, malloc and assert
        return ADDRESS if "REL" in types and _REGISTER.search(operands) else ""
    if unit in _TENSOR_CORES:
        return _narrow(types) or _TENSOR_CORES[unit]
    if unit == "MUFU":
        return "approximate"
    if unit in _DOUBLE_UNITS:
        return "double"
    if unit in _HALF_UNITS:
        return (_narrow(types) or "half") if _has_value(operands) else ""
    if unit in _CONVERSIONS:
        packs = unit == "F2FP" and "F32" not in types  # before sm_90: F2FP.PACK_AB is to half
        return _narrow(types) or ("half" if "F16" in types or packs else "") or _double(types)
    return ""


def _narrow(types: Sequence[str]) -> str:
    for word in types:
        if word.startswith(("E4M3", "E5M2", "E3M2", "E2M3", "E2M1")):
            return "fp8"
        if word.startswith("BF16"):
            return "bfloat16"
        if word == "TF32":
            return "tf32"
    return ""


def _double(types: Sequence[str]) -> str:
    return "double" if "F64" in types else ""


def _has_value(operands: str) -> bool:
    """Not so where the compiler only makes a constant: `HFMA2.MMA R5, -RZ, RZ, 0, 2.4e-07`."""
    return bool(_REGISTER.search(operands.partition(",")[2]))


def with_arithmetic(
    resources: Sequence[KernelResources], found: Mapping[str, Arithmetic]
) -> tuple[KernelResources, ...]:
    """The kernels with what was read of each."""
    return tuple(
        r.model_copy(update={"arithmetic": found[r.kernel]}) if found.get(r.kernel) else r
        for r in resources
    )


def own_code() -> str:
    """For the keys of what is cached."""
    return Path(__file__).read_text(encoding="utf-8")
