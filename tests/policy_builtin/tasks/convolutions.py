"""Convolutions of one to three dims: strides, padding, dilation, groups, transposed, fused ends."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
channels = 6


class Model(nn.Module):
    def __init__(self, c: int):
        super().__init__()
        self.plain = nn.Conv2d(c, 10, 3)
        self.strided = nn.Conv2d(c, 4, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(1, 2))
        self.grouped = nn.Conv2d(c, 12, 3, padding=1, groups=3, bias=False)
        self.depthwise = nn.Conv2d(c, c, (1, 7), padding="same", groups=c)
        self.circular = nn.Conv2d(c, 3, 3, padding=1, padding_mode="circular")
        self.pointwise = nn.Conv2d(c, 9, 1)
        self.steps = nn.Conv2d(c, 2, 1, stride=2)
        self.line = nn.Conv1d(c, 8, 4, stride=3, padding=2, dilation=2)
        self.lines = nn.Conv1d(c, 2 * c, 3, padding=1, groups=c)
        self.cube = nn.Conv3d(c, 5, (2, 3, 1), stride=(1, 2, 1), padding=(0, 1, 1))
        self.up1 = nn.ConvTranspose1d(c, 4, 5, stride=2, padding=1, dilation=3)
        self.up2 = nn.ConvTranspose2d(c, 8, (3, 4), stride=(2, 3), padding=(1, 0), groups=2,
                                      output_padding=(1, 2), bias=False)  # fmt: skip
        self.up3 = nn.ConvTranspose3d(c, 3, 3, stride=2, padding=1, output_padding=1)
        self.bn = nn.BatchNorm2d(10)

    def forward(self, x, y, z):
        h = self.plain(x)
        return (
            h.relu(), F.hardswish(self.bn(h)), self.strided(x), self.grouped(x) * 0.5,
            self.depthwise(x), self.pointwise(self.depthwise(x)), self.circular(x), self.steps(x),
            self.line(y), self.lines(y).sigmoid(), self.line(y[0]), self.cube(z), self.up1(y),
            self.up2(x), F.gelu(self.up3(z)), h.mean((2, 3)), F.conv2d(x.mT, x[:, :, :3, :3]),
            self.grouped(x).amax(1, keepdim=True) + x, F.max_pool2d(self.plain(x), 2),
        )  # fmt: skip


def get_inputs():
    x, y = torch.randn(batch, channels, 9, 11), torch.randn(batch, channels, 23)
    return [x, y, torch.randn(batch, channels, 4, 5, 6)]


def get_init_inputs():
    return [channels]
