"""Imports every module that registers lowerings, so that the table is full."""

from musaagent.policies.builtin import (
    attention,
    conv,
    elementwise,
    losses,
    matmul,
    norms,
    pool,
    reductions,
    scans,
    views,
)

__all__ = [
    "attention",
    "conv",
    "elementwise",
    "losses",
    "matmul",
    "norms",
    "pool",
    "reductions",
    "scans",
    "views",
]
