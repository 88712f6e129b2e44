"""The causal depthwise convolution of a state-space model, followed by SiLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16
channels = 1024
length = 2048


class Model(nn.Module):
    """One short filter a channel, padded on both sides by kernel_size - 1 and dilated."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv1d(
            channels, channels, kernel_size=4, groups=channels, padding=6, dilation=2
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.conv(x))


def get_inputs():
    return [torch.randn(batch_size, channels, length)]


def get_init_inputs():
    return [channels]
