"""Tensors that the host code of C++ cannot reach in runs that are not checked."""

from collections.abc import Callable
from pathlib import Path

import pytest

BODIES = (
    "host_code_of_cpp_cannot_read_or_write",
    "views_and_parameters_are_guarded_too",
    "python_sees_the_same_address",
    "torch_kernels_and_copies_use_it_as_ever",
    "host_tensors_stay_readable",
    "kernels_cannot_reach_host_tensors",
    "what_is_the_host_s_is_never_hidden",
    "what_becomes_the_device_s_is_hidden",
    "results_written_to_the_device_stay_there",
    "pinned_memory_is_of_both_and_counted",
    "launches_with_addresses_of_the_host_are_refused",
    "what_goes_to_the_host_is_counted",
    "memory_is_given_back",
    "memory_that_was_lent_can_be_resized",
    "from_blob_makes_no_host_memory_of_it",
    "numpy_tells_no_address_of_the_device",
    "reads_past_the_end_are_no_zeros",
    "python_reads_nothing_while_it_is_hidden",
    "operators_of_its_own_are_not_lent_to",
    "what_the_host_is_given_is_open_and_counted",
    "temporaries_are_given_back_while_hidden",
    "memory_that_was_shared_before_is_told",
)


@pytest.mark.parametrize("body", BODIES)
def test_device(
    body: str, in_child: Callable[..., None], runtime_library: Path, device_library: Path
) -> None:
    in_child("bodies_device.py", body, runtime_library, device_library)
