"""The first half of a feed-forward block: linear layer with bias, then GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 4096
width = 1024
hidden = 4096


class Model(nn.Module):
    """gelu(x @ W.T + b), the pattern that a fused epilogue serves."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.up(x))


def get_inputs():
    return [torch.randn(tokens, width)]


def get_init_inputs():
    return [width, hidden]
