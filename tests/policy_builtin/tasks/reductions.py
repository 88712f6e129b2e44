"""Reductions over every kind of dims, in several dtypes, with several results."""

import torch
import torch.nn as nn

batch = 4
length = 37


class Model(nn.Module):
    def forward(self, x, k, flags):
        d = x.double()
        return (
            x.sum(), x.sum(-1), x.sum(1, keepdim=True), x.sum((0, 2)), x.mean(), x.mean((1, 2)),
            x.mean(0, keepdim=True), x.prod(1), x.amax(2), x.amin((0, 1)), x.max(), x.min(),
            x.max(1), x.min(-1, keepdim=True), x.argmax(), x.argmin(2), x.argmax(1, keepdim=True),
            x.var(), x.var(1), x.var((0, 1), unbiased=False), x.std(2), x.std((1, 2), correction=2),
            torch.var_mean(x, 1), x.logsumexp(1), x.logsumexp((0, 2)), x.norm(), x.norm(1, -1),
            torch.linalg.vector_norm(x, 3, 1), x.norm(float("inf"), 0), flags.any(), flags.all(1),
            (x > 2).any(2), k.sum(), k.sum(1), k.max(1), k.prod(2), k.float().mean(), k.argmin(0),
            flags.sum(0), torch.count_nonzero(k, 1), d.mean(1), d.var(0), (x * 2 + 1).sum(1).relu(),
            x.half().sum(2), x.bfloat16().mean(0), x.sum(()), (x - x.mean(1, True)).abs().max(),
            x.sum(1).mean(0) + x.amax((0, 1)), x.permute(2, 0, 1).sum(1), x[:, 1:-1].mean(1),
        )  # fmt: skip


def get_inputs():
    x = torch.randn(batch, length, 6)
    return [x, torch.randint(-3, 4, (batch, length, 6)), torch.rand(batch, length) > 0.3]


def get_init_inputs():
    return []
