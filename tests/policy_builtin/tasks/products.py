"""Matrix products of every form: batches, vectors, views, broadcasts, einsum, fused ends."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 3
inner = 37


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, 70)
        self.bare = nn.Linear(width, 5, bias=False)
        self.bilinear = nn.Parameter(torch.randn(width, 19))

    def forward(self, a, b, c, v, w):
        n = a.size(0)
        return (
            a @ b, a.T @ a, b.T @ a.T, a @ v, v @ b, torch.dot(v, w), torch.outer(v[:9], w),
            torch.bmm(c, c.transpose(1, 2)), c @ b, torch.matmul(c[:, None], b), v @ c.mT,
            self.linear(a), F.gelu(self.linear(c)), self.bare(v) * 2, torch.sigmoid(self.bare(a)),
            torch.addmm(self.bare.weight[:, :1].T[:, :1], a, b, beta=0.5, alpha=2.0),
            torch.baddbmm(c[:, :, :1], c, c.mT, alpha=0.3), (a @ b).softmax(-1),
            torch.einsum("bik,kj->bij", c, b), torch.einsum("bik,bjk->bij", c, c),
            torch.einsum("ik,jk->ji", a, a), (a + 1) @ (b * 0.5) + a[:, :1],
            torch.triu(a[:, :n] @ a[:, :n].T), torch.tril(a[:n, :n]) @ a[:n],
            torch.diag(v) @ b, a.double() @ b.double(), a.half() @ b.half(), a[1:, ::2] @ b[::2],
            (a @ b) @ (b.T @ a.T), (a @ self.bilinear).max(1)[0], a @ self.bilinear @ w[:19],
        )  # fmt: skip


def get_inputs():
    a, b, c = torch.randn(21, inner), torch.randn(inner, 66), torch.randn(batch, 9, inner)
    return [a, b, c, torch.randn(inner), torch.randn(inner)]


def get_init_inputs():
    return [inner]
