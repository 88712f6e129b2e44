"""Attention: plain, scaled, causal, with masks of both kinds, with shared heads, and by hand."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
heads = 4
length = 21


class Model(nn.Module):
    def __init__(self, width: int = 24):
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width, bias=False)

    def by_hand(self, x):
        b, n, c = x.shape
        q, k, v = self.project(x).split(c, dim=2)
        q, k, v = (t.view(b, n, 4, c // 4).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        seen = torch.tril(torch.ones(n, n, device=x.device)) == 0
        weights = scores.masked_fill(seen, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, c))

    def forward(self, q, k, v, few, bias, seen, x):
        sdpa = F.scaled_dot_product_attention
        return (
            sdpa(q, k, v), sdpa(q, k, v, is_causal=True), sdpa(q, k, v, scale=0.3).relu(),
            sdpa(q, k, v, attn_mask=bias), sdpa(q, k, v, attn_mask=seen) + q,
            sdpa(q, few, few * 2, enable_gqa=True), self.by_hand(x), sdpa(x, x, x),
        )  # fmt: skip


def get_inputs():
    q, k, v = (torch.randn(batch, heads, length, 8) for _ in range(3))
    bias, seen = torch.randn(length, length), torch.rand(heads, length, length) > 0.3
    seen[0, 3] = False
    return [q, k, v, torch.randn(batch, 2, length, 8), bias, seen, torch.randn(batch, length, 24)]


def get_init_inputs():
    return []
