"""Builders over the user's cache: the shared parts take a minute to build, once a machine."""

import ctypes
import uuid
from collections.abc import Callable

import pytest

from musaagent.tools.host.builder import HostBuilder
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.results import Build


@pytest.fixture(scope="session")
def builder() -> HostBuilder:
    made = HostBuilder()
    made.prepare("fast")
    made.runtime_library()
    return made


def unique() -> str:
    """A comment that makes a source new to the cache."""
    return f"\n// {uuid.uuid4()}\n"


@pytest.fixture
def build(builder: HostBuilder) -> Callable[..., Build]:
    """Build `cuda` (and `cpp`) sources that no earlier run can have put into the cache."""

    def make(cuda: str, cpp: str = "", mode: str = "fast", **fields: object) -> Build:
        values: dict[str, object] = {
            "name": "ext",
            "cpp_sources": (cpp + unique(),),
            "cuda_sources": (cuda + unique(),),
            **fields,
        }
        sources = SourceSet.model_validate(values)
        return builder.build(sources, mode="check" if mode == "check" else "fast", timeout_s=120)

    return make


@pytest.fixture
def run(builder: HostBuilder, build: Callable[..., Build]) -> Callable[[str], int]:
    """Build CUDA source with a C function `int run()`, call it, give its result."""
    ctypes.CDLL(str(builder.runtime_library()), mode=ctypes.RTLD_GLOBAL)

    def call(cuda: str) -> int:
        head = '#define ENTRY extern "C" __attribute__((visibility("default"))) int run()\n'
        made = build(head + cuda, is_python_module=False)
        assert made.ok, made.log_tail
        return int(ctypes.CDLL(made.libraries[0]).run())

    return call
