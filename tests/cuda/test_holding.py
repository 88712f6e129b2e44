"""Launches of modules that nvcc compiled are held back: seen without a GPU by what they return."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from musaagent.tools.cuda.builder import CudaBuilder
from musaagent.tools.cuda.holding import HELD_BACK
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.host.toolchain import find_nvcc

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc here")

CUDA = """
#include <cooperative_groups.h>
#include <cuda_runtime.h>
__global__ void one(float* x) { x[0] = 1.f; }
extern "C" __attribute__((visibility("default"))) int launched(int how) {
  cudaGetLastError();
  void* none = nullptr;
  void* values[] = {&none};
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = dim3(1);
  if (how == 0) return (int)cudaLaunchKernel((const void*)one, dim3(1), dim3(1), values, 0, 0);
  if (how == 1) return (int)cudaLaunchCooperativeKernel((void*)one, dim3(1), dim3(1), values, 0, 0);
  if (how == 2) return (int)cudaLaunchKernelEx(&config, one, (float*)nullptr);
  return (int)cudaGraphLaunch(nullptr, 0);
}
int f() {
  one<<<1, 1>>>(nullptr);
  return launched(0);
}
"""
CALLS = [
    f"{name}{end}"
    for name in (
        *("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchCooperativeKernel"),
        *("cudaLaunchKernelExC", "cudaGraphLaunch"),
    )
    for end in ("", "_ptsz")
]
# In a process of its own, where no card is seen: every call that gets through fails.
LOOK = """
import ctypes, sys, torch
from musaagent.tools.cuda.bridge import load_runtime
from musaagent.tools.cuda.holding import Launches
load_runtime(sys.argv[1])
module = ctypes.CDLL(sys.argv[2])
launches = Launches()
launches.add(sys.argv[2])
for held in (False, True, False):
    launches.hold(held)
    print([module.launched(how) == 0 for how in range(4)])
"""


def callers(library: str) -> set[str]:
    """Functions of the library that call the runtime's launch calls; <<<>>> is one of them."""
    lines = subprocess.run(["objdump", "-d", library], capture_output=True, text=True).stdout
    function, found = "", set()
    for line in lines.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.+)>:", line):
            function = head[1].removesuffix("@plt")
        elif (call := re.search(r"(?:call|jmp)\s.*<(\w+)@plt>", line)) and call[1] in CALLS:
            found.add(function)
    return found


def test_every_way_to_launch_does_nothing_while_it_is_held_back(tmp_path: Path) -> None:
    sources = SourceSet(
        name="held", cpp_sources=("int f();",), cuda_sources=(CUDA,), functions=("f",)
    )
    builder = CudaBuilder("sm_90")
    build = builder.build(sources, timeout_s=300.0, levels=("thin",))
    assert build.ok, build.log_tail
    library = build.libraries[0]
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True).stdout
    assert HELD_BACK in symbols
    assert {caller.removeprefix("__wrap_") for caller in callers(library)} <= set(CALLS)
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(builder.runtime_library()), library],
        capture_output=True,
        text=True,
        env={"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    through, held, again = done.stdout.splitlines()
    assert held == str([True] * 4)
    assert through == again == str([False] * 4)
