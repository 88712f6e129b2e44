"""Imports every module that registers lowerings, so that the table is full."""

from musaagent.policies.builtin import elementwise, losses, norms, reductions, scans, views

__all__ = ["elementwise", "losses", "norms", "reductions", "scans", "views"]
