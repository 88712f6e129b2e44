"""Post-norm of a transformer: LayerNorm of the sum of a block's output and its input."""

import torch
import torch.nn as nn

batch_size = 32
sequence = 512
width = 1024


class Model(nn.Module):
    """Adds the residual, then normalises over the last dimension with weight and bias."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=eps)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.norm(x + residual)


def get_inputs():
    return [torch.randn(batch_size, sequence, width), torch.randn(batch_size, sequence, width)]


def get_init_inputs():
    return [width, 1e-5]
