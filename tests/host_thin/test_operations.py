"""ATen operations and exceptions through the callback, compared with torch in Python."""

import warnings
from types import ModuleType

import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("no_leak")


def test_operations_give_torchs_results(functions: ModuleType) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 5)
    y = x.t().contiguous().view(-1).unsqueeze(0).expand(2, -1) * 2 + 1
    expected = (y - x.sum()).abs().clamp(0.5, 3).pow(2).mean([1], keepdim=True)
    torch.testing.assert_close(functions.chain(x), expected)
    for got, want in zip(functions.largest(x), torch.max(x, 1, keepdim=True), strict=True):
        torch.testing.assert_close(got, want)
    image, weight, bias = torch.randn(1, 2, 6, 5), torch.randn(4, 2, 3, 3), torch.randn(4)
    for b in (bias, None):
        want = F.conv2d(image, weight, b, stride=(2, 1), padding=1)
        torch.testing.assert_close(functions.convolved(image, weight, b), want)
    torch.testing.assert_close(functions.joined([x, x + 1]), torch.cat([x, x + 1]))
    assert [tuple(t.shape) for t in functions.split_up(x)] == [(2, 5), (1, 5)]
    torch.testing.assert_close(functions.accessed(x), x + 1)
    assert functions.item_of(torch.tensor([1.0, 2.5])) == 6.0


def test_factories_indexing_and_memory(functions: ModuleType) -> None:
    x = torch.zeros(3, 3)
    indexed = functions.sliced(x)
    assert x.tolist() == [[7, 7, 0], [9, 0, 0], [0, 0, 0]]
    assert indexed.shape == (2, 1, 3)
    assert functions.made(x).tolist() == [[0, 1, 2], [3, 4, 5], [4, 4, 4], [4, 4, 4], [1, 2, 3]]
    assert functions.from_memory().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert functions.poisoned(x).isnan().all()
    grown = torch.zeros(2)
    assert functions.grown(grown) == 510
    assert grown.shape == (5, 2)
    assert "tensor" in functions.shown(x)


def test_memory_that_a_kernel_may_not_touch_is_not_called_cuda(functions: ModuleType) -> None:
    expected = [False, True, False, True, True, False, True, True, False]
    assert functions.places(torch.ones(2)) == expected


MESSAGES = {
    0: (RuntimeError, r"want 9 dims, got 2 of \[2, 3\]"),
    1: (RuntimeError, r"Expected x\.dim\(\) == 9 to be true, but got false"),
    2: (RuntimeError, r"expected scalar type Double but found Float"),
    3: (IndexError, r"expected to be in range of \[-2, 1\], but got 7"),
    4: (NotImplementedError, r"\"my_kernel\" not implemented for 'Int'"),
    5: (RuntimeError, r"mat1 and mat2 shapes cannot be multiplied"),
    6: (ValueError, r"bad value"),
    7: (RuntimeError, r"plain"),
    8: (IndexError, r"past the end"),
    9: (RuntimeError, r"unknown exception"),
    10: (RuntimeError, r"Check failed: x\.dim\(\) == 9 \(2 vs\. 9\)"),
    11: (RuntimeError, r"stop 1"),
    12: (RuntimeError, r"CUDA error: invalid configuration argument"),
    13: (ValueError, r"py value"),
    14: (RuntimeError, r"undefined Tensor"),
    15: (RuntimeError, r"expected 3 dims but tensor has 2"),
    16: (NotImplementedError, r"later"),
    17: (IndexError, r"index"),
}


@pytest.mark.parametrize("which", MESSAGES)
def test_exceptions_cross_with_their_text(functions: ModuleType, which: int) -> None:
    kind, text = MESSAGES[which]
    with pytest.raises(kind, match=text) as caught:
        functions.fails(which, torch.ones(2, 3))
    assert type(caught.value) is kind


def test_cpp_can_catch_what_torch_raised(functions: ModuleType) -> None:
    text = functions.caught(torch.ones(2, 3))
    assert text.startswith("c10: ")
    assert "mat1 and mat2" in text


def test_a_warning_becomes_pythons(functions: ModuleType) -> None:
    with pytest.warns(UserWarning, match="careful 3"):
        functions.warned()
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="careful 3"):
        warnings.simplefilter("error")
        functions.warned()


def test_kernels_run_over_every_dispatched_type(functions: ModuleType) -> None:
    from musaagent.tools.host import bridge

    torch.manual_seed(1)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.randn(1000).to(dtype)
        torch.testing.assert_close(functions.scaled(x, 1.5), (x.double() * 1.5).to(dtype))
    with pytest.raises(NotImplementedError, match=r"\"scaled\" not implemented for 'Long'"):
        functions.scaled(torch.ones(2, dtype=torch.int64), 1.0)
    functions.too_wide(torch.ones(1))
    with pytest.raises(RuntimeError, match="CUDA error: invalid configuration argument"):
        bridge.synchronize()
    bridge.synchronize()
    bridge.take_report()
