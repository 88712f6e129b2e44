"""A PyTorch op goes in, a fast and proven native CUDA or MUSA kernel comes out."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from musaagent.app import resume, solve, verify

__all__ = ["__version__", "resume", "solve", "verify"]


def __getattr__(name: str) -> Any:
    # On first use: what stands behind them takes seconds to import, and `--help` needs none of it.
    if name in ("resume", "solve", "verify"):
        from musaagent import app

        return getattr(app, name)
    raise AttributeError(f"module 'musaagent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
