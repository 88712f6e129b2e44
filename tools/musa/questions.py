"""What no public page says of these cards, asked of the card itself by one small kernel.

The answers say how far the host target's warp of 128 lanes is from the real one. Row by row: what
each of 128 threads of one block got.
"""

from typing import Any

QUESTIONS = (
    ("warp_size", "warpSize"),
    ("arch", "ARCH"),
    ("shfl_xor_16", "__shfl_xor_sync(0xffffffffu, t, 16)"),
    ("shfl_down_16", "(int)__shfl_down_sync(0xffffffffu, t, 16)"),
    ("shfl_lane_0", "__shfl_sync(0xffffffffu, t, 0)"),
    ("shfl_xor_64", "__shfl_xor_sync(0xffffffffu, t, 64)"),
    ("shfl_xor_16_width_32", "__shfl_xor_sync(0xffffffffu, t, 16, 32)"),
    ("shfl_lane_0_half_mask", "__shfl_sync(0x0000ffffu, t, 0)"),
    ("ballot_thirds", "(int)__ballot_sync(0xffffffffu, t % 3 == 0)"),
    ("ballot_bytes", "(int)sizeof(__ballot_sync(0xffffffffu, 1))"),
    ("activemask", "(int)__activemask()"),
    ("any_last", "__any_sync(0xffffffffu, t == 127)"),
)
"""Name of a row, and the expression that gives it."""
BASIC = QUESTIONS[:6]
"""What every card should compile."""
LANES = 128

_TEXT = '''import torch
import torch.nn as nn
from torch_musa.utils.musa_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <musa_runtime.h>
#if defined(__MUSA_ARCH__)
#define ARCH __MUSA_ARCH__
#else
#define ARCH 0
#endif
__global__ void ask(int* answers) {{
  const int t = threadIdx.x;
{body}
}}
at::Tensor run(at::Tensor x) {{
  auto answers = at::full({{{count}, {lanes}}}, -1, x.options().dtype(at::kInt));
  ask<<<1, {lanes}>>>(answers.data_ptr<int>());
  TORCH_CHECK(musaGetLastError() == musaSuccess, "the launch failed");
  return answers;
}}
"""
extension = load_inline(name="questions", cpp_sources="at::Tensor run(at::Tensor x);",
                        musa_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.run(x)
'''


def candidate(questions: tuple[tuple[str, str], ...] = QUESTIONS) -> str:
    """A candidate whose output has a row for each question."""
    lines = [
        f"  answers[{row} * {LANES} + t] = {expression};"
        for row, (_, expression) in enumerate(questions)
    ]
    return _TEXT.format(body="\n".join(lines), count=len(questions), lanes=LANES)


def read(array: Any, questions: tuple[tuple[str, str], ...] = QUESTIONS) -> dict[str, Any]:
    """The answers by name: one number where all threads agree, else all of them."""
    found: dict[str, Any] = {}
    for (name, _), row in zip(questions, array.tolist(), strict=True):
        found[name] = row[0] if len(set(row)) == 1 else row
    return found
