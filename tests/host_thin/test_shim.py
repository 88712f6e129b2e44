"""A CPU-only torch that passes for one with a CUDA or MUSA device."""

from collections.abc import Callable
from pathlib import Path

import pytest

BODIES = (
    "devices",
    "uninitialised_memory_is_poisoned",
    "modules_move_and_run",
    "the_cuda_interface",
    "the_musa_spelling",
)


@pytest.mark.parametrize("body", BODIES)
def test_shim(
    body: str, in_child: Callable[..., None], runtime_library: Path, library: Path
) -> None:
    in_child("bodies_shim.py", body, runtime_library, library)


def test_load_inline_takes_stocks_parameters(
    in_child: Callable[..., None], runtime_library: Path, library: Path, tmp_path: Path
) -> None:
    body = "load_inline_takes_stocks_parameters"
    in_child("bodies_shim.py", body, runtime_library, library, tmp_path)
