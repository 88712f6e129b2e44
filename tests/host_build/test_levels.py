"""The long build is tried only for what torch's own headers have and the thin ones lack."""

from pathlib import Path

import pytest

from musaagent.tools.host.levels import beyond_thin, clashes
from musaagent.tools.host.toolchain import TorchHeaders, find_torch
from musaagent.tools.results import Diagnostic

THIN = Path(__file__).parents[2] / "tools" / "host" / "include_torch"


def error(message: str, source: str = "cuda_sources[0]") -> Diagnostic:
    return Diagnostic(tool="g++", severity="error", message=message, source=source, line=1)


@pytest.fixture(scope="module")
def torch() -> TorchHeaders:
    found = find_torch()
    assert found is not None
    return found


@pytest.mark.parametrize(
    "message",
    [
        "torch/csrc/autograd/custom_function.h: No such file or directory",
        "'torch/nn/functional/conv.h' file not found",
        "'PackedSequence' is not a member of 'torch::nn::utils::rnn'",
        "'class at::Tensor' has no member named 'register_hook'",
        "no matching function for call to 'at::Tensor::foo(int)'",
    ],
)
def test_what_only_torch_has(torch: TorchHeaders, message: str) -> None:
    assert beyond_thin([error(message)], torch, THIN)


@pytest.mark.parametrize(
    "message",
    [
        "'bye' was not declared in this scope",
        "'C10_CUDA_KERNEL_LAUNCH_CHECK' was not declared in this scope",
        "'at::cuda' has not been declared",
        "'conv2d_out_of_nowhere' is not a member of 'at'",
        "'class at::Tensor' has no member named 'nosuchmember'",
        "my_helpers.h: No such file or directory",
        "expected ';' before '}' token",
        "no matching function for call to 'min(const long int&, int)'",
        "too few arguments to function 'void k(const float*, at::Tensor)'",
    ],
)
def test_the_candidate_s_own_errors(torch: TorchHeaders, message: str) -> None:
    assert not beyond_thin([error(message)], torch, THIN)


def test_what_two_units_could_mend() -> None:
    assert clashes([error("redefinition of 'int helper()'")])
    assert clashes([error("'f' was not declared in this scope", "functions")])
    assert not clashes([error("'f' was not declared in this scope")])
