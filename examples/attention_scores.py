"""Scaled attention scores: Q times K transposed, for every head, with an additive mask."""

import math

import torch
import torch.nn as nn

batch_size = 8
heads = 12
sequence = 512
head_width = 64


class Model(nn.Module):
    """softmax-ready scores: Q K^T / sqrt(d) + mask."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1)) + mask


def get_inputs():
    return [
        torch.randn(batch_size, heads, sequence, head_width),
        torch.randn(batch_size, heads, sequence, head_width),
        torch.randn(batch_size, 1, 1, sequence),
    ]


def get_init_inputs():
    return []
