"""Elementwise functions of one tensor, each its own output."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 5


class Model(nn.Module):
    def forward(self, x):
        p = x.abs() + 0.1
        u = torch.tanh(x) * 0.9
        return (
            F.relu(x), F.leaky_relu(x, 0.2), torch.sigmoid(x), torch.tanh(x), F.silu(x),
            F.mish(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.selu(x), F.elu(x, 0.7),
            F.celu(x, 1.3), F.softplus(x, 2.0, 3.0), F.softsign(x), F.hardtanh(x, -0.5, 0.7),
            F.hardsigmoid(x), F.hardswish(x), F.hardshrink(x, 0.3), F.softshrink(x, 0.3),
            F.tanhshrink(x), F.threshold(x, 0.1, -2.0), F.relu6(x * 4), F.logsigmoid(x),
            x.exp(), p.log(), p.log2(), p.log10(), x.log1p().nan_to_num(7.0), x.expm1(),
            x.exp2(), p.sqrt(), p.rsqrt(), p.reciprocal(), x.sin(), x.cos(), u.tan(), u.asin(),
            u.acos(), x.atan(), x.sinh(), x.cosh(), x.asinh(), (p + 1).acosh(), u.atanh(),
            x.erf(), x.erfc(), x.floor(), x.ceil(), x.trunc(), x.round(), x.frac(), x.abs(),
            -x, x.sign(), x.square(), x**2, x**3, x**4, p**0.5, p**-0.5, p**-1, p**-2, p**1.7,
            2.0**x, x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0.2), x > 0.1,
            x.isnan(), x.isfinite(), torch.where(x > 0, x, -1.5), x.masked_fill(x < 0, 9.0),
            x.deg2rad(), torch.sinc(x), F.glu(x, 1), 1.0 - x, 3.0 / p, x % 0.7, x // 0.3,
        )  # fmt: skip


def get_inputs():
    return [torch.randn(rows, 38)]


def get_init_inputs():
    return []
