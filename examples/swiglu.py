"""The SwiGLU gate of a feed-forward layer: silu(gate) * up, from two projections' outputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F

tokens = 8192
hidden = 5504


class Model(nn.Module):
    """Gates one projection by the SiLU of the other, with the upper side clamped."""

    def __init__(self, limit: float):
        super().__init__()
        self.limit = limit

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(torch.clamp(gate, max=self.limit)) * up


def get_inputs():
    return [torch.randn(tokens, hidden) * 3, torch.randn(tokens, hidden)]


def get_init_inputs():
    return [7.0]
