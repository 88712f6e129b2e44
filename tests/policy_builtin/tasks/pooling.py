"""Pooling of one to three dims: windows, padding, dilation, ceil mode, indices, adaptive forms."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
channels = 5


class Model(nn.Module):
    def forward(self, x, y, z):
        return (
            F.max_pool1d(y, 4, 3, padding=2), F.max_pool1d(y, 3, dilation=4, ceil_mode=True),
            F.max_pool2d(x, 2), F.max_pool2d(x, (3, 2), stride=(1, 2), padding=1, dilation=(2, 1)),
            F.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True), F.max_pool3d(z, 2, 1),
            F.max_pool3d(z, 3, 2, padding=1, dilation=1, return_indices=True),
            F.avg_pool1d(y, 4, 2, 1), F.avg_pool1d(y, 3, padding=1, count_include_pad=False),
            F.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True), F.avg_pool2d(x, 2, 3, ceil_mode=True),
            F.avg_pool2d(x, (2, 3), divisor_override=5), F.avg_pool3d(z, 2, 2, 1),
            F.adaptive_avg_pool1d(y, 4), F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 5)),
            F.adaptive_avg_pool3d(z, (2, None, 3)), F.adaptive_max_pool1d(y, 6),
            F.adaptive_max_pool2d(x, (3, 4), return_indices=True), F.adaptive_max_pool3d(z, 2),
            F.lp_pool2d(x.abs(), 2, 2), F.max_pool2d(x * 2 - 1, 2).relu().sum(1),
            F.avg_pool2d(x[0], 2), F.max_pool2d(x.half(), 3, 1), F.avg_pool2d(x.bfloat16(), 2),
            F.max_pool1d(y.masked_fill(y > 1, float("nan")), 2),
        )  # fmt: skip


def get_inputs():
    x, y = torch.randn(batch, channels, 9, 11), torch.randn(batch, channels, 23)
    return [x, y, torch.randn(batch, channels, 6, 5, 7)]


def get_init_inputs():
    return []
