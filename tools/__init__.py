"""Compilers, sandbox, verifier, profiler and targets. Knows nothing of models or graphs."""
