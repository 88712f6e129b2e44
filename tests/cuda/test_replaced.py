"""What a candidate replaces in the process that it shares is noticed, and times are not taken by it."""

import json
import subprocess
import sys

import pytest

from musaagent.tools import trees
from musaagent.tools.judge import judge_run
from musaagent.tools.reference_session import Expected
from musaagent.tools.session import CandidateFailure
from musaagent.tools.tolerance import ToleranceRule

PATCHES = {
    "torch.cuda.Event.elapsed_time": "torch.cuda.Event.elapsed_time = lambda self, other: 0.001",
    "torch.cuda.Event": "torch.cuda.Event = object",
    "time.perf_counter": "time.perf_counter = lambda: 0.0",
    "torch.cuda.synchronize": "torch.cuda.synchronize = print",
    "torch.Tensor.copy_": "torch.Tensor.copy_ = lambda self, other: self",
    "torch.profiler.profile": "torch.profiler.profile = print",
    "musaagent.tools.cuda.clock.measure": "clock.measure = print",
    "musaagent.tools.cuda.kernels.record_kernels": "kernels.record_kernels = print",
}
# In a process of its own, as what is replaced stays so.
PROGRAM = """
import json, sys, time, torch, torch._dynamo, torch.profiler
from musaagent.tools.cuda import clock, kernels
from musaagent.tools.originals import Identities
known = Identities()
found = [known.replaced()]
kept = clock._elapsed, clock._record, clock._synchronize, clock._perf_counter
for patch in json.load(sys.stdin):
    exec(patch)
    found.append(known.replaced())
assert kept == (clock._elapsed, clock._record, clock._synchronize, clock._perf_counter)
assert clock._perf_counter() > 0
json.dump(found, sys.stdout)
"""


def test_replaced_things_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(list(PATCHES.values())),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    before, *after = json.loads(done.stdout)
    assert before == []
    for index, found in enumerate(after):
        assert set(found) >= set(list(PATCHES)[: index + 1])
    assert set(after[-1]) <= {*PATCHES, "torch.Tensor.copy_"}


def answer(tree: object) -> dict[str, object]:
    return {"tree": tree, "tensors": [], "buffers": [], "replaced": ["torch.cuda.Event"]}


def test_it_is_illegal() -> None:
    tree, _ = trees.flatten([], "output")
    expected = Expected(tree, [], [], "float64", {}, [])
    judged = judge_run(answer(tree), [], expected, ToleranceRule(None, None), kernels_ran=1)
    assert judged.illegal == "it replaced torch.cuda.Event in the process that is judged"


def test_a_tree_that_is_none_is_the_candidates_failure() -> None:
    tree, _ = trees.flatten([], "output")
    expected = Expected(tree, [], [], "float64", {}, [])
    with pytest.raises(CandidateFailure, match="cannot be read"):
        judge_run(answer([]), [], expected, ToleranceRule(None, None), kernels_ran=1)
