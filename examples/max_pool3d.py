"""Pooling in a video network: 3-D max pooling with padding, as between I3D stages."""

import torch
import torch.nn as nn

batch_size = 8
channels = 64
frames = 16
height = 56
width = 56


class Model(nn.Module):
    """Pools space and time with a window that overlaps."""

    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool3d(kernel_size=3, stride=(1, 2, 2), padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch_size, channels, frames, height, width)]


def get_init_inputs():
    return []
