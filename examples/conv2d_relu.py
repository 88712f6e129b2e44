"""A downsampling stage of a CNN: strided 3x3 convolution with bias, then ReLU."""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
height = 112
width = 112


class Model(nn.Module):
    """Halves the resolution and doubles the channels."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
