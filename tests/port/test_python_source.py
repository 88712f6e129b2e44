"""Candidates: their Python to torch_musa, their C++ texts in place."""

import ast

import pytest

from musaagent.tools.port.python_source import port_python
from musaagent.tools.port.tables import Tables

TABLES = Tables()


def ported(text: str, arch: str = "mp_22") -> str:
    result = port_python(text, TABLES, arch).text
    ast.parse(result)
    return result


@pytest.mark.parametrize(
    ("cuda", "musa"),
    [
        (
            "from torch.utils.cpp_extension import load_inline",
            "from torch_musa.utils.musa_extension import load_inline",
        ),
        (
            "from torch.utils import cpp_extension",
            "from torch_musa.utils import musa_extension as cpp_extension",
        ),
        (
            "from torch.utils import cpp_extension as ext, data",
            "from torch.utils import data; from torch_musa.utils import musa_extension as ext",
        ),
        (
            "import torch.utils.cpp_extension as ext",
            "import torch_musa.utils.musa_extension as ext",
        ),
        (
            "m = torch.utils.cpp_extension.load_inline(name='a', cpp_sources='')",
            "m = torch_musa.utils.musa_extension.load_inline(name='a', cpp_sources='')",
        ),
        ("x = x.cuda()", "x = x.musa()"),
        ("y = torch.zeros(3, device='cuda')", "y = torch.zeros(3, device='musa')"),
        ('d = torch.device("cuda:0")', 'd = torch.device("musa:0")'),
        ("torch.cuda.synchronize()", "torch.musa.synchronize()"),
        ("assert x.is_cuda", "assert x.is_musa"),
        (
            "torch.backends.cuda.matmul.allow_tf32 = False",
            "torch.backends.mudnn.allow_tf32 = False",
        ),
        (
            "load_inline(name='a', cuda_sources=s, extra_cuda_cflags=['-O3', '-arch=sm_80'])",
            "load_inline(name='a', musa_sources=s, extra_musa_cflags="
            '["-O3", "--offload-arch=mp_22"])',
        ),
        (
            "load(name='a', sources=['a.cpp', 'b.cu'], with_cuda=True)",
            "load(name='a', sources=['a.cpp', 'b.mu'], with_musa=True)",
        ),
    ],
)
def test_the_python_speaks_torch_musa(cuda: str, musa: str) -> None:
    assert ported(cuda) == musa


@pytest.mark.parametrize(
    "text",
    [
        "name = 'cuda kernels are fast'",
        '"""Uses cuda and cudaMalloc."""\nx = 1',
        "functions = ['add_cuda']",
        "cuda_source = 1\nself.cuda_module = cuda_source",
        "print('torch.cuda.synchronize')  # cuda:0",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert ported(text) == text


def test_c_plus_plus_is_ported_in_place_whatever_the_quotes() -> None:
    text = (
        'a = r"""\n#include <cuda_runtime.h>\nint n = cudaSuccess; // cudaSuccess\n"""\n'
        "b = '''\\n#include <cuda.h>\\n'''\n"
        "c = f'#include <cuda_fp16.h>\\n__global__ void k{n}() {{ __nv_bfloat16 x; }}'\n"
        "load_inline(name='x', cpp_sources='', cuda_sources=[a, b, c], functions=['cudaAdd'])\n"
    )
    found = ported(text)
    assert "#include <musa_runtime.h>\nint n = musaSuccess; // cudaSuccess\n" in found
    assert "'''\\n#include <musa.h>\\n'''" in found
    assert "f'#include <musa_fp16.h>\\n__global__ void k{n}() {{ __mt_bfloat16 x; }}'" in found
    assert "functions=['cudaAdd']" in found


def test_escapes_are_no_letters_of_the_source() -> None:
    text = (
        'a = "#include <cuda.h>\\n#include \\"c10/cuda/CUDAGuard.h\\"\\n#if __CUDA_ARCH__ == 1\\n"\n'
        "load_inline(name='x', cpp_sources='', cuda_sources=a)\n"
    )
    found = port_python(text, TABLES, "mp_22")
    assert found.text.split("\n")[0] == (
        'a = "#include <musa.h>\\n#include \\"torch_musa/csrc/core/MUSAGuard.h\\"'
        '\\n#if __MUSA_ARCH__ == 210\\n"'
    )
    assert {change.line for change in found.changes} == {1, 2}


def test_functions_that_python_calls_keep_their_names() -> None:
    text = (
        's = "torch::Tensor cudaAdd(torch::Tensor x);"\n'
        "load_inline(name='x', cpp_sources=s, functions=['cudaAdd'])\n"
    )
    assert "torch::Tensor cudaAdd(torch::Tensor x);" in ported(text)


def test_flags_of_nvcc_become_mccs_or_are_told() -> None:
    text = (
        "load_inline(name='x', cpp_sources='', extra_cuda_cflags=['--use_fast_math',"
        " '--expt-relaxed-constexpr', '-gencode=arch=compute_80,code=sm_80', '--odd', V])"
    )
    found = port_python(text, TABLES, "mp_31")
    flags = '["-ffast-math", "-fno-finite-math-only", "--offload-arch=mp_31", "--odd", V]'
    assert flags in found.text
    told = [remark.message for remark in found.remarks if remark.kind == "flag"]
    assert told == ["--odd: not known to be one of mcc's"]


def test_lines_of_remarks_are_the_files() -> None:
    text = "x = 1\nsource = '''\n#include <cuda.h>\n#if __CUDA_ARCH__ == 700\n#endif\n'''\n"
    found = port_python(text, TABLES, "mp_22", source="c.py")
    assert [(r.kind, r.line) for r in found.remarks] == [("arch_threshold", 4)]
