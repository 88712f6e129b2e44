"""Parsing from several threads at once."""

import ast
import gc
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from musaagent.tools.syntax import parse, parse_expression

SOURCE = "def f(x):\n" + "".join(f"    x = [{{{i}: (x, [x + {i}])}}]\n" for i in range(60))
THREADS, TIMES = 8, 60


class Cycle:
    """Garbage that lets other threads run when it is collected, in the midst of a parse."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def _many_switches() -> Iterator[None]:
    before, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(10)
    yield
    sys.setswitchinterval(before)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("_many_switches")
def test_threads_parse_side_by_side() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(TIMES):
                Cycle()
                assert isinstance(parse(SOURCE), ast.Module)
                assert isinstance(parse_expression("[1, (2, x)]"), ast.Expression)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
