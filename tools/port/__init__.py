"""CUDA to MUSA: names, and what no table can carry over."""
