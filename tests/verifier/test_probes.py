"""The parts that the probes are made of: changed inputs and weights, sizes, and what is told."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from musaagent.tools.audit import audit
from musaagent.tools.candidate import Candidate
from musaagent.tools.compare import Value
from musaagent.tools.host.target import HostTarget
from musaagent.tools.judge import defined, void_outputs
from musaagent.tools.lanes import LONG, lane_sizes
from musaagent.tools.legality import illegal_operators
from musaagent.tools.lending import LentFolder
from musaagent.tools.originals import Identities
from musaagent.tools.plan import TaskScales
from musaagent.tools.probes import STRESS
from musaagent.tools.reference_session import Expected, ReferenceSession
from musaagent.tools.results import Status
from musaagent.tools.scales import RUN
from musaagent.tools.stress import other_weights, stressed
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task, load_task
from musaagent.tools.tolerance import ToleranceRule
from musaagent.tools.wire import Channel

TESTS = Path(__file__).resolve().parents[1]
SEED = 3


@pytest.fixture
def generator() -> torch.Generator:
    print("seed", SEED)
    return torch.Generator().manual_seed(SEED)


@pytest.mark.parametrize("lane", [name for name in STRESS if name not in ("offset", "integers")])
def test_a_lane_keeps_shapes_and_dtypes_and_leaves_integers_that_are_drawn(
    lane: str, generator: torch.Generator
) -> None:
    drawn = [torch.randn(6, 7, generator=generator), torch.arange(5), torch.rand(9).half()]
    changed = stressed(lane, drawn, [t.clone() for t in drawn], SEED)
    assert changed is not None
    assert [(t.shape, t.dtype) for t in changed] == [(t.shape, t.dtype) for t in drawn]
    assert torch.equal(changed[1], drawn[1]) == (lane != "fixed")
    if lane == "views":
        assert torch.equal(changed[0], drawn[0])
        assert not changed[0].is_contiguous()
    else:
        assert not torch.equal(changed[0], drawn[0])


def test_a_lane_that_changes_nothing_says_so() -> None:
    assert stressed("negative", [-torch.rand(4, 4)], [torch.rand(4, 4)], SEED) is None
    assert stressed("large", [torch.arange(4)], [torch.arange(4)], SEED) is None


def test_integers_that_are_data_get_some_below_zero_that_index_nothing() -> None:
    data = torch.arange(12, dtype=torch.int32).reshape(3, 4).repeat(5, 5)
    mask, labels = (torch.arange(12).reshape(3, 4) % 2), torch.arange(9)
    floats = torch.rand(4, 4)
    drawn = [data, mask, labels, floats, data - 4]
    changed = stressed("integers", drawn, drawn, SEED)
    assert changed is not None
    assert changed[0].dtype == data.dtype
    below = changed[0][changed[0] < 0]
    assert 0.1 < below.numel() / data.numel() < 0.4
    assert int(below.max()) < -data.numel()
    assert all(torch.equal(a, b) for a, b in zip(changed[1:], drawn[1:], strict=True))
    assert stressed("integers", drawn[1:], drawn[1:], SEED) is None


def test_what_each_draw_has_alike_is_changed_within_its_range(generator: torch.Generator) -> None:
    drawn = torch.randn(20, 30, generator=generator)
    causal = torch.ones(30, 30).tril().bool()
    ends, lengths = torch.arange(0, 90, 3), torch.full((20,), 30)
    kept = [torch.zeros(20, 30), torch.ones(20, 30).bool(), causal, ends, lengths]
    kept += [torch.zeros(20, dtype=torch.int64)]
    changed = stressed("fixed", [drawn, *kept], [drawn + 1, *kept], SEED)
    assert changed is not None
    assert torch.equal(changed[0], drawn)
    state, mask, shuffled, offsets, shorter, types = changed[1:]
    assert float(state.std()) > 0.1
    assert 0.1 < float((~mask).float().mean()) < 0.4
    assert not torch.equal(shuffled, causal)
    assert torch.equal(shuffled.sum(1), causal.sum(1))  # no row of a mask is left empty
    assert [int(offsets[0]), int(offsets[-1])] == [0, 87]
    assert bool((offsets.diff() >= 0).all())
    assert not torch.equal(offsets, ends)
    assert 1 <= int(shorter.min()) < int(shorter.max()) <= 30
    assert not types.any()  # an index of zero may be the only one
    assert stressed("fixed", [drawn], [drawn + 1], SEED) is None


def test_few_elements_change_and_the_last_is_one(generator: torch.Generator) -> None:
    old, new = (torch.randn(40, 50, generator=generator) for _ in range(2))
    changed = stressed("few", [old], [new], SEED)
    assert changed is not None
    different = (changed[0] != old).flatten().nonzero().flatten().tolist()
    assert 1 <= len(different) <= 3
    assert different[-1] == old.numel() - 1


def test_other_weights_are_all_other_and_statistics_stay_possible(
    generator: torch.Generator,
) -> None:
    module = torch.nn.BatchNorm1d(8)
    module.register_buffer("mask", torch.ones(8))
    changed = other_weights(module, generator)
    assert changed is not None
    assert set(changed) == {"weight", "bias", "running_mean", "running_var"}
    assert all(not torch.equal(changed[k], module.state_dict()[k]) for k in changed)
    assert bool((changed["running_var"] > 0).all())
    assert other_weights(torch.nn.ReLU(), generator) is None


def test_weights_that_are_all_but_zero_are_drawn_larger(generator: torch.Generator) -> None:
    module = torch.nn.LayerNorm(50)
    torch.nn.init.constant_(module.weight, 1e-6)
    torch.nn.init.normal_(module.bias, std=1e-6, generator=generator)
    changed = other_weights(module, generator)
    assert changed is not None
    assert all(0.03 < float(changed[name].std()) < 0.3 for name in ("weight", "bias"))
    assert bool((changed["weight"] >= 0).all())


def expected(array: np.ndarray, exact: np.ndarray | None = None) -> Expected:
    value = Value("output 0", array.dtype.name, array)
    wide = array.astype(np.float64) if exact is None else exact
    return Expected({}, [value], [wide], "float64", {}, [])


def test_void_outputs_are_told_and_others_are_not() -> None:
    rule = ToleranceRule()
    zeros, ones = np.zeros((4, 5), np.float32), np.ones((4, 5), np.float32)
    assert void_outputs(expected(zeros), rule) == ("task: zeros would pass as the output",)
    assert "one number everywhere" in void_outputs(expected(ones), rule)[0]
    print("seed", SEED)
    drawn = np.random.default_rng(SEED).standard_normal((4, 5)).astype(np.float32)
    assert void_outputs(expected(drawn), rule) == ()


def test_what_the_reference_does_not_define_is_left_out() -> None:
    fine = np.linspace(-1, 1, 20, dtype=np.float32)
    infinite = fine.copy()
    infinite[3] = np.inf
    assert defined(expected(fine), "large")
    assert not defined(expected(infinite), "large")
    assert defined(expected(infinite), "infinities")
    infinite[4] = np.nan
    assert not defined(expected(infinite), "infinities")
    noise = expected(fine, fine.astype(np.float64) + 0.1)
    assert not defined(noise, "large")


def test_sizes_of_the_lanes() -> None:
    source = (TESTS / "exploits" / "tasks" / "long_row_sum.py").read_text()
    task = TaskScales(source)
    assert lane_sizes(task, "own 1") == {"batch": 2}
    far = TaskScales(source.replace("16384", "393216").replace("8192", "64"))
    assert far.scale(RUN).overrides["features"] > LONG  # reduced, and still long
    assert lane_sizes(far, "own 1") == {"batch": 2}
    odd = lane_sizes(task, "odd")
    assert odd is not None
    assert odd["batch"] % 2 == odd["features"] % 2 == 1
    small = TaskScales(source.replace("8192", "37").replace("16384", "51"))
    assert [lane_sizes(small, lane) for lane in ("odd", "own 1", "own 2")] == [None] * 3


def test_vendor_libraries_alone_are_allowed() -> None:
    ran = ["library.kernel sgemm", "aten.mm.default", "aten.empty.memory_format"]
    assert illegal_operators(ran) == ("library.kernel sgemm", "aten.mm.default")
    assert illegal_operators(ran, ("vendor-libs",)) == ("aten.mm.default",)


def test_tripwires_name_line_and_reason_once() -> None:
    flags = audit("import gc\nx = gc.get_objects()\ny = gc.get_objects()\n")
    assert flags == ("audit: line 2 uses gc.get_objects (looks through the process's memory)",)
    assert (
        "beside a catch"
        in audit('s = "#include <x>\\n catch (...) { return at::matmul(a, b); }"')[0]
    )
    assert "names musahost_set_dry" in audit('s = "#include <x>\\n musahost_set_dry(0);"')[0]
    assert audit('"""Written by musaagent."""\n') == ()
    assert audit("import torch\ntorch.backends.cudnn.benchmark = True\n") == ()


def test_replaced_and_hidden_functions_are_named() -> None:
    known = Identities()
    assert known.replaced() == []
    kept = torch.allclose
    torch.allclose = lambda *args: True  # type: ignore[assignment]
    torch.Tensor.sum = lambda self: 0  # type: ignore[method-assign,assignment]
    try:
        assert set(known.replaced()) == {"torch.allclose", "torch.Tensor.sum"}
    finally:
        torch.allclose = kept
        del torch.Tensor.sum
    assert known.replaced() == []


def test_a_channel_knows_of_what_nobody_read() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    assert not channel.pending()
    theirs.send(b"x")
    assert channel.pending()
    channel.close()
    theirs.close()
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    theirs.close()
    assert not channel.pending()
    channel.close()


def test_a_lent_folder_holds_one_library_and_stale_ones_go(tmp_path: Path) -> None:
    library = tmp_path / "modules" / "key" / "module.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"built")
    stale = LentFolder(tmp_path)
    os.utime(stale.path, (0, 0))
    lent = LentFolder(tmp_path)
    assert not stale.path.exists()
    path = Path(lent.lend(str(library)))
    assert path.read_bytes() == b"built"
    assert [p.name for p in lent.path.rglob("*.so")] == ["module.so"]
    lent.remove()
    assert library.exists()
    assert not lent.path.exists()


class Losing(HostTarget):
    """Loses the first reference worker that a verification borrows."""

    lost = 0

    def reference(self, task: Task, scale: str) -> ReferenceSession:
        session = super().reference(task, scale)
        if not self.lost:
            self.lost += 1
            session.child.kill()
        return session


@pytest.fixture
def losing() -> Iterator[Losing]:
    with Losing(compile_for_gpu=False) as target:
        yield target


def test_a_worker_of_ours_that_is_lost_is_started_again(losing: Losing) -> None:
    path = TESTS / "candidates" / "add_relu_float4.py"
    verdict = losing.verify(
        load_task(path), Candidate(path.read_text()), VerifyOptions(seed=SEED, trials=2)
    )
    assert losing.lost == 1
    assert verdict.status is Status.PASSED, verdict.message
