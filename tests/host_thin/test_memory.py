"""Guarded and registered memory in checked runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

BODIES = (
    "right_kernels_on_guarded_tensors_report_nothing",
    "an_overrun_names_the_tensor",
    "an_overrun_of_what_cpp_made_is_found",
    "host_memory_is_out_of_bounds",
)


@pytest.mark.parametrize("body", BODIES)
def test_memory(
    body: str, in_child: Callable[..., None], runtime_library: Path, checked_library: Path
) -> None:
    in_child("bodies_memory.py", body, runtime_library, checked_library)
