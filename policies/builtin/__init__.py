"""The builtin policy: from a task's traced graph to candidates, without a model."""

from musaagent.policies.builtin.policy import BuiltinPolicy

__all__ = ["BuiltinPolicy"]
