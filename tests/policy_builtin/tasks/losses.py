"""Losses with every kind of reduction and target."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 9
classes = 13


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.triplet = nn.TripletMarginLoss(margin=0.7)
        self.register_buffer("weight", torch.rand(size) + 0.1)

    def forward(self, x, y, z, k, sign, pixels, labels):
        p, q = x.softmax(1), y.softmax(1)
        lp = x.log_softmax(1)
        return (
            F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y, beta=0.5),
            F.huber_loss(x, y, delta=0.7, reduction="none"), F.kl_div(lp, q, reduction="batchmean"),
            F.kl_div(lp, q.log(), log_target=True, reduction="sum"), F.binary_cross_entropy(p, q),
            F.binary_cross_entropy_with_logits(x, q, pos_weight=self.weight), F.cross_entropy(x, k),
            F.cross_entropy(x, k, weight=self.weight, ignore_index=2), F.cross_entropy(x, q),
            F.cross_entropy(x, k, label_smoothing=0.2, reduction="sum"), F.nll_loss(lp, k),
            F.cross_entropy(x, k, reduction="none"), F.cross_entropy(pixels, labels),
            F.cross_entropy(x, k, weight=self.weight, label_smoothing=0.1),
            F.soft_margin_loss(x, sign), F.hinge_embedding_loss(x, sign, margin=0.5),
            F.margin_ranking_loss(x, y, sign, margin=0.2), self.triplet(x, y, z),
            F.triplet_margin_loss(x, y, z, p=1, swap=True, reduction="none"),
            F.pairwise_distance(x, y, p=1.5, keepdim=True),
            F.cosine_embedding_loss(x, y, sign[:, 0]),
            F.poisson_nll_loss(x, q), torch.clamp(1 - x * sign, min=0).mean(), torch.dist(x, y, 2),
        )  # fmt: skip


def get_inputs():
    x, y, z = (torch.randn(batch, classes) for _ in range(3))
    sign = torch.randint(0, 2, (batch, classes)).float() * 2 - 1
    pixels, labels = torch.randn(batch, classes, 4, 3), torch.randint(0, classes, (batch, 4, 3))
    return [x, y, z, torch.randint(0, classes, (batch,)), sign, pixels, labels]


def get_init_inputs():
    return [classes]
