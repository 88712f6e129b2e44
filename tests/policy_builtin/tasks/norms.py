"""Softmax and normalisations, fused with what stands around them."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
channels = 12


class Model(nn.Module):
    def __init__(self, features: int, groups: int = 3):
        super().__init__()
        self.layer = nn.LayerNorm((features, 5))
        self.plain = nn.LayerNorm(5, elementwise_affine=False)
        self.group = nn.GroupNorm(groups, features)
        self.instance = nn.InstanceNorm1d(features, affine=True, track_running_stats=True)
        self.batch = nn.BatchNorm1d(features, momentum=0.3)
        self.frozen = nn.BatchNorm1d(features).eval()
        self.rms = nn.RMSNorm(5, eps=1e-6)
        for p in self.parameters():
            nn.init.normal_(p)

    def forward(self, x, y):
        h = F.gelu(x) + y
        far = x.masked_fill(y > 0, float("-inf"))
        return (
            F.softmax(x, dim=1), F.softmax(x * 0.3 + y, dim=-1), F.log_softmax(x, 0),
            F.softmin(x, 2), self.layer(h), self.plain(x).relu(), self.group(x),
            self.instance(x), self.batch(x * 2), self.frozen(x), self.rms(x),
            F.normalize(x, dim=1), F.cosine_similarity(x, y, dim=1),
            x / (x.abs().mean(1, keepdim=True) + 1e-5),
            F.softmax(x.flatten(1), 1).view(x.shape) * y, x.softmax(1).sum(1),
            F.softmax(far, -1).nan_to_num(), far.logsumexp(1),
            (x - x.amax(1, keepdim=True)).exp() / x.std(1, keepdim=True),
            F.layer_norm(x.double(), (5,)), x.softmax(1).transpose(1, 2) * 2,
        )  # fmt: skip


def get_inputs():
    return [torch.randn(batch, channels, 5) * 3, torch.randn(batch, channels, 5)]


def get_init_inputs():
    return [channels]
