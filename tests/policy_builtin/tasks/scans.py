"""Running sums and their relatives, along every dim, forwards, backwards and shifted."""

import torch
import torch.nn as nn

batch = 3
length = 1100


class Model(nn.Module):
    def forward(self, x, mask, k):
        front = torch.zeros_like(x.select(1, 0).unsqueeze(1))
        return (
            x.cumsum(1), x.cumsum(0), x.cumsum(2), (x * mask).cumsum(1), x.cumprod(1),
            x.flip(1).cumsum(1).flip(1), x.cumsum(1).transpose(1, 2) * 2, k.cumsum(1), x.cummax(1),
            k.cummin(1), torch.logcumsumexp(x, 1), torch.cat((front, x[:, :-1].cumsum(1)), 1),
            x.cumsum(1) / torch.arange(1, length + 1).view(1, -1, 1), x.double().cumsum(1),
            x.half().cumsum(2), (x.cumsum(1) - x).mean(1), torch.diff(x, dim=1), k.cummax(0),
        )  # fmt: skip


def get_inputs():
    x = torch.rand(batch, length, 2) * 2
    return [x, torch.rand(batch, length, 2) > 0.5, torch.randint(-5, 6, (batch, length, 2))]


def get_init_inputs():
    return []
