"""A decoder's upsampling step: strided transposed convolution with output padding."""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 32
height = 64
width = 64


class Model(nn.Module):
    """Doubles the resolution, then squashes to [0, 1]."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.up = nn.ConvTranspose2d(
            in_channels, out_channels, kernel_size=3, stride=2, padding=1, output_padding=1
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.up(x))


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
