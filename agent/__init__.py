"""A PyTorch op goes in, a fast and proven native CUDA or MUSA kernel comes out."""

__version__ = "0.1.0"
