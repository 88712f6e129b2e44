"""The right candidates and the planted faults, each through the whole verifier on the host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.results import Status, Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

TESTS = Path(__file__).resolve().parents[1]
RIGHT = sorted((TESTS / "candidates").glob("*.py"))
FAULTY = sorted((TESTS / "faults").glob("*.py"))
SEED = 20
COMPILED_FOR_A_GPU = {"softmax_warp", "leaky_relu_dispatch"}
"""One by NVRTC, one by nvcc; compiling all of them would take most of the time."""


@pytest.fixture(scope="module")
def target() -> Iterator[HostTarget]:
    with HostTarget() as made:
        made.warm_up()
        yield made


@pytest.fixture(scope="module")
def quick_target() -> Iterator[HostTarget]:
    """Faults are named without nvcc, which would take most of the time."""
    with HostTarget(compile_for_gpu=False) as made:
        made.warm_up()
        yield made


def verify(target: HostTarget, path: Path, check: bool, probes: bool = True) -> Verdict:
    print("seed", SEED)
    task = load_task(path)
    limit_s = 8.0 if "timeout" in path.read_text().partition("\n")[0] else 20.0
    options = VerifyOptions(seed=SEED, check=check, probes=probes, timeout_s=limit_s)
    try:
        return target.verify(task, Candidate(path.read_text()), options)
    finally:
        target.forget(task)


def assert_flags(path: Path, verdict: Verdict) -> None:
    """None, but the one that the file's first line names."""
    first, _, _ = path.read_text().partition("\n")
    if first.startswith("# flag: "):
        assert len(verdict.flags) == 1, verdict.flags
        assert verdict.flags[0].startswith(first.removeprefix("# flag: "))
    else:
        assert verdict.flags == ()


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_right_candidates_pass_and_nothing_is_found(
    request: pytest.FixtureRequest, path: Path
) -> None:
    chosen = "target" if path.stem in COMPILED_FOR_A_GPU else "quick_target"
    # Those that the probes say nothing of are in tests/honest by the dozen.
    probes = path.read_text().startswith("# flag: ")
    verdict = verify(request.getfixturevalue(chosen), path, check=True, probes=probes)
    assert verdict.status is Status.PASSED, (verdict.message, verdict.details)
    assert verdict.checked
    assert verdict.findings == ()
    assert_flags(path, verdict)
    assert verdict.build is not None
    assert verdict.build.level == "thin"
    if path.stem in COMPILED_FOR_A_GPU:
        assert verdict.build.resources


def outcomes(verdict: Verdict) -> set[str]:
    """What of the verdict may name a fault: its status, its kind, what a checked run found."""
    if verdict.status is Status.PASSED:
        return {f"flag:{flag}" for flag in verdict.flags}
    found = {finding.kind.value for finding in verdict.findings}
    said = {verdict.status.value, *(f"check:{kind}" for kind in found)}
    if verdict.kind is not None:
        said.add(f"{verdict.status.value}:{verdict.kind.value}")
    return said | {f"{verdict.status.value}:{kind}" for kind in found}


@pytest.mark.parametrize("path", FAULTY, ids=lambda path: path.stem)
def test_planted_faults_are_named(quick_target: HostTarget, path: Path) -> None:
    first, _, _ = path.read_text().partition("\n")
    wanted, _, _ = first.removeprefix("# fault: ").partition(" - ")
    # A checked build takes as long again: only where a checked run may name the fault.
    verdict = verify(quick_target, path, check="check:" in wanted)
    named = outcomes(verdict)
    assert any(
        said == word or (word.startswith("flag:") and said.startswith(word))
        for said in named
        for word in wanted.split(" or ")
    ), (verdict.status, verdict.message, named)
    assert verdict.message or verdict.flags
