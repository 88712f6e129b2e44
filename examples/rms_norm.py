"""RMSNorm as LLaMA writes it: x * rsqrt(mean(x^2) + eps) * weight."""

import torch
import torch.nn as nn

batch_size = 8
sequence = 2048
width = 4096


class Model(nn.Module):
    """Normalises each token by its root mean square."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps))


def get_inputs():
    return [torch.randn(batch_size, sequence, width)]


def get_init_inputs():
    return [width, 1e-6]
