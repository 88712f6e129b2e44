"""One host target for the tests of this folder."""

from collections.abc import Iterator

import pytest

from musaagent.tools.host.target import HostTarget


@pytest.fixture(scope="session")
def host() -> Iterator[HostTarget]:
    with HostTarget(compile_for_gpu=False) as made:
        made.warm_up()
        yield made
