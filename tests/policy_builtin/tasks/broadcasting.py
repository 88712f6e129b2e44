"""Arithmetic of several tensors that broadcast, in several dtypes."""

import torch
import torch.nn as nn

batch = 3
width = 21


class Model(nn.Module):
    def __init__(self, scale, size):
        super(Model, self).__init__()  # noqa: UP008
        self.scale = scale
        self.size = size
        self.weight = nn.Parameter(torch.randn(size, 1))
        self.register_buffer("shift", torch.randn(1, 7))

    def forward(self, a, b, row, one, k, mask):
        h = torch.lerp(a, b, 0.3) + row
        return {
            "arith": (a + b, a - b, a * b, a / (b.abs() + 1), torch.add(a, b, alpha=2)),
            "broadcast": [a + row, a * one, self.weight * a + self.shift, row - one],
            "extremes": (torch.maximum(a, b), torch.min(a, row), torch.max(a, b), torch.fmax(a, b)),
            "ints": (k + 1, k * k, k // 3, k % 4, -k, k.float() / 2, k / 2, a * k, k > 5, k.abs()),
            "bools": (mask & (a > 0), mask | (a > 0), mask ^ (a > 0), ~mask, mask.logical_not()),
            "mixed": (a * mask, torch.where(mask, a, row), a.double() + 1, a.half() * 2, a.int()),
            "more": (torch.addcmul(a, b, row, value=0.5), torch.addcdiv(a, b, b.abs() + 1), h),
            "two": (torch.atan2(a, b), torch.hypot(a, b), torch.fmod(a, 0.3), a.remainder(b)),
            "scaled": a * self.scale / self.size,
        }


def get_inputs():
    a, b = torch.randn(batch, width, 7), torch.randn(batch, width, 7)
    k = torch.randint(-9, 9, (batch, width, 7))
    return [a, b, torch.randn(7), torch.randn(()), k, torch.rand(batch, width, 7) > 0.5]


def get_init_inputs():
    return [1.25, width]
