"""Moving elements: views, concatenations, padding, selections, lookups."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 3
length = 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 5)

    def forward(self, x, y, ids, square):
        n, _, w = x.shape
        return (
            x.view(n, -1) * 2, x.flatten(1, 2), x.permute(2, 0, 1) + 1, x.transpose(1, 2),
            x[:, 1:, ::2] * y[:, 1:, ::2], x.unsqueeze(1).expand(-1, 4, -1, -1).reshape(-1, w),
            x.flip(1) + y.flip([0, 2]), torch.cat([x, y, x * y], dim=1), torch.stack([x, y], dim=2),
            x.roll(2, 1), x.roll((1, -3), (0, 1)), F.pad(x, (1, 2, 0, 3), value=0.5),
            F.pad(x, (2, 1), mode="reflect"), F.pad(x, (2, 1), mode="replicate"), torch.triu(x),
            F.pad(x, (1, 2), mode="circular"), torch.tril(x, -1), x.repeat(2, 1, 3),
            x.repeat_interleave(3, dim=1), x.chunk(2, dim=2)[1] + 1, x.split([2, 6], 1)[1],
            x.unbind(1)[3], x[:, -1], x.select(2, 3), x.narrow(1, 2, 3), x[:1].squeeze(0),
            torch.gather(x, 1, ids), torch.index_select(x, 1, ids[0, :, 0]),
            self.table(ids[:, :, 0]), x.unfold(2, 3, 2), torch.diagonal(x, dim1=1, dim2=2),
            torch.diag(x[0, 0]), x.reshape(n, 4, 2, w).transpose(1, 2).reshape(n, -1),
            F.pixel_shuffle(square, 2), torch.arange(w) * x, x.movedim(0, 2),
            torch.eye(4) + square[0, 0], torch.zeros_like(x) + torch.ones(w), F.pad(x, (-1, 2)),
            x.clone().mul_(3), x.T.reshape(w, -1), (x * y).permute(1, 2, 0).contiguous().view(-1),
        )  # fmt: skip


def get_inputs():
    ids = torch.randint(0, 8, (batch, 4, length))
    x, y = torch.randn(batch, 8, length), torch.randn(batch, 8, length)
    return [x, y, ids, torch.randn(2, 4, 4, 4)]


def get_init_inputs():
    return []
