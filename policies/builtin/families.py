"""Imports every module that registers lowerings, so that the table is full."""

from musaagent.policies.builtin import (
    activations,
    attention,
    conv,
    creation,
    elementwise,
    losses,
    matmul,
    norms,
    pool,
    reductions,
    scans,
    selections,
    views,
)

__all__ = [
    "activations",
    "attention",
    "conv",
    "creation",
    "elementwise",
    "losses",
    "matmul",
    "norms",
    "pool",
    "reductions",
    "scans",
    "selections",
    "views",
]
