"""Buffers that a forward changes in place: counters, broadcasts over themselves, moved elements."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 6
channels = 20


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.batch = nn.BatchNorm1d(features)
        self.maps = nn.BatchNorm2d(features)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("turned", torch.randn(300, 7))
        self.register_buffer("scaled", torch.rand(4, 50) + 0.1)
        self.register_buffer("last", torch.zeros(features))

    def forward(self, x):
        self.calls.add_(1)
        self.turned.copy_((self.turned * 2).flip(0))
        self.scaled.div_(self.scaled.sum(1, keepdim=True))
        self.last.copy_(x.mean(0))
        y = self.batch(x)
        return y, F.relu(self.maps(y.view(-1, x.size(1), 1, 1))), y + self.scaled.sum()


def get_inputs():
    return [torch.randn(batch, channels)]


def get_init_inputs():
    return [channels]
