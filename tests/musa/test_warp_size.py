"""A warp of 128 lanes: what was written for 32 fails on the host target as it would on an S4000."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.musa.cards import card_of
from musaagent.tools.results import Status, Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

sys.path.insert(0, str(Path(__file__).parent))
from warp32 import BUGS, candidate, op

SEED = 11


def verdict_on(host: HostTarget, name: str, folder: Path, arch: str) -> Verdict:
    print("seed", SEED)
    path = folder / "op.py"
    path.write_text(op(name))
    task = load_task(path)
    options = VerifyOptions(
        seed=SEED,
        trials=1,
        arch=arch,
        warp_size=card_of(arch).warp_size,
        timeout_s=20,
        probes=False,
    )
    return host.verify(task, Candidate(candidate(name)), options)


@pytest.fixture(autouse=True)
def references_end(host: HostTarget, tmp_path: Path) -> Iterator[None]:
    yield
    host.forget(load_task(tmp_path / "op.py"))


@pytest.mark.parametrize("bug", BUGS)
def test_a_warp_of_32_taken_for_granted_is_found_at_128_only(
    host: HostTarget, bug: str, tmp_path: Path
) -> None:
    narrow = verdict_on(host, bug, tmp_path, "mp_31")
    assert narrow.status is Status.PASSED, (narrow.message, narrow.details)
    wide = verdict_on(host, bug, tmp_path, "mp_22")
    assert wide.status is Status.MISMATCH, wide.message


@pytest.mark.parametrize("arch", ["mp_21", "mp_22", "mp_31"])
def test_a_kernel_that_asks_for_the_warp_size_is_right_on_every_card(
    host: HostTarget, arch: str, tmp_path: Path
) -> None:
    verdict = verdict_on(host, "right_for_any_warp", tmp_path, arch)
    assert verdict.status is Status.PASSED, (verdict.message, verdict.details)
