"""Messages of real compilers land on the candidate's own lines and speak the candidate's names."""

import subprocess
from pathlib import Path

import pytest

from musaagent.tools.host.diagnostics import Texts, clean, parse
from musaagent.tools.host.toolchain import find_nvcc
from musaagent.tools.results import Diagnostic

CUDA = "cuda_sources[0]"
FLAGS = ["-std=c++20", "-fdiagnostics-color=never", "-fno-diagnostics-show-caret", "-Wvla"]


def compile_text(folder: Path, text: str, prelude: str = "", *more: str) -> tuple[Diagnostic, ...]:
    (folder / "unit.cpp").write_text(f'{prelude}\n#line 1 "{CUDA}"\n{text}\n')
    command = ["g++", *FLAGS, "unit.cpp", *(more or ("-c", "-o", "unit.o"))]
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin"}
    )
    assert result.returncode != 0
    return parse(result.stderr, "g++", Texts({CUDA: text}, {CUDA: text}))


def test_an_error_has_line_column_and_the_line_itself(tmp_path: Path) -> None:
    (found,) = compile_text(tmp_path, "int f() {\n  return missing;\n}")
    assert (found.tool, found.severity) == ("g++", "error")
    assert (found.source, found.line, found.column) == (CUDA, 2, 10)
    assert found.message == "'missing' was not declared in this scope"
    assert found.text == "return missing;"


def test_an_error_in_a_header_is_told_at_the_line_that_leads_there(tmp_path: Path) -> None:
    (tmp_path / "ours.h").write_text(
        "template <class T> void deep(T t) { t.nothing(); }\n"
        "template <class T> void launch(T t) { deep(t); }\n"
        "#define CHECK(x) x.nothing()\n"
    )
    text = "void f() {\n\n  launch(3);\n}\nvoid g() { CHECK(4); }"
    found = compile_text(tmp_path, text, '#include "ours.h"')
    assert {d.line for d in found} == {3, 5}
    assert all(d.source == CUDA for d in found)


def test_notes_and_repeats(tmp_path: Path) -> None:
    text = "void f(int a, int b);\nvoid g() { f(1); f(1); }"
    found = compile_text(tmp_path, text)
    assert len(found) == 1
    assert found[0].message.startswith("too few arguments to function")
    assert found[0].notes == ("line 1: declared here",)


def test_undefined_references_come_from_the_linker(tmp_path: Path) -> None:
    text = "void f(int);\nvoid g() { f(1); }"
    found = compile_text(tmp_path, text, "", "-shared", "-fPIC", "-Wl,-z,defs", "-o", "x.so")
    assert [(d.tool, d.message) for d in found] == [("ld", "undefined reference to 'f(int)'")]


@pytest.mark.parametrize(
    ("prelude", "text", "construct", "line"),
    [
        ('#error "musahost: unsupported construct: wmma (mma.h)"', "int x;", "wmma", 0),
        ("", "int x;\n#include <cublas_v2.h>", "cuBLAS", 2),
        (
            '__attribute__((error("musahost: unsupported construct: inline PTX"))) void no();',
            "void f(int a) {\n  if (a)\n    no();\n}",
            "inline PTX",
            3,
        ),
    ],
)
def test_refused_constructs(
    tmp_path: Path, prelude: str, text: str, construct: str, line: int
) -> None:
    found = compile_text(tmp_path, text, prelude)[0]
    assert found.tool == "host"
    assert found.construct == construct
    assert found.line == line
    assert found.message == f"the host target cannot run {construct}"


def test_an_array_of_variable_length_reads_as_nvcc_says_it(tmp_path: Path) -> None:
    prelude = '#pragma GCC diagnostic error "-Wvla"'
    (found,) = compile_text(tmp_path, "void f(int n) {\n  float a[n];\n}", prelude)
    assert found.line == 2
    assert found.message == "expression must have a constant value: the size of array 'a'"


def test_columns_survive_rewriting_around_them() -> None:
    texts = Texts({CUDA: "ab(x) + missing;"}, {CUDA: "longer(x) + missing;"})
    output = f"{CUDA}:1:13: error: 'missing' was not declared\n{CUDA}:1:3: error: other\n"
    found = parse(output, "g++", texts)
    assert [d.column for d in found] == [9, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in call to 'musahost::launch'", "in call to 'kernel launch'"),
        ("no match for 'musahost::config(dim3, int)'", "no match for '<<<...>>>'"),
        ("'float musahost_dynamic_smem []'", "'float smem []'"),
        ("invalid conversion [-fpermissive]", "invalid conversion"),
        ("cannot convert 'musahost_p#0' to 'int'", "cannot convert 'argument' to 'int'"),
    ],
)
def test_our_own_names_do_not_show(text: str, expected: str) -> None:
    assert clean(text) == expected


CLANG = f"""{CUDA}:24:58: error: use of undeclared identifier '__isGridConstant'
{CUDA}:3:1: note: candidate function not viable
{CUDA}:9:10: fatal error: 'thrust/sort.h' file not found
2 errors generated when compiling for mp_31.
"""


def test_clang_s_form() -> None:
    found = parse(CLANG, "mcc", Texts({CUDA: "\n" * 30}))
    assert [(d.tool, d.line, d.construct) for d in found] == [
        ("mcc", 24, None),
        ("host", 9, "Thrust"),
    ]


NVCC = f"""{CUDA}(5): error: identifier "undeclared" is undefined
     undeclared(x);
     ^
          detected during instantiation of "void k(T *) [with T=float]" at line 8

{CUDA}(7): warning #177-D: variable "f" was declared but never referenced
ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x13880 bytes, 0xc000 max)
1 error detected in the compilation of "cuda.cu".
"""


def test_nvcc_s_form() -> None:
    first, second = parse(NVCC, "nvcc", Texts({CUDA: "\n" * 4 + "     undeclared(x);"}))
    assert (first.tool, first.line, first.text) == ("nvcc", 5, "undeclared(x);")
    assert first.notes == (
        'detected during instantiation of "void k(T *) [with T=float]" at line 8',
    )
    assert second.tool == "ptxas"
    assert "uses too much shared data" in second.message


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc here")
def test_nvcc_itself(tmp_path: Path) -> None:
    text = "__global__ void k(float* x) {\n  x[0] = nothing;\n}\nvoid f();"
    (tmp_path / "cuda.cu").write_text(f'#line 1 "{CUDA}"\n{text}\n')
    command = [str(find_nvcc()), "-cubin", "-arch=sm_90", "cuda.cu"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    (found,) = parse(result.stderr + result.stdout, "nvcc", Texts({CUDA: text}))
    assert found.line == 2
    assert found.message == 'identifier "nothing" is undefined'


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/ld: cannot find -lcublas: No such file or directory",
        "/usr/bin/ld: cannot find -lcublas",
        "ld.lld: error: unable to find library -lcublas",
    ],
)
def test_a_library_that_is_not_here_is_named(line: str) -> None:
    output = f"{line}\ncollect2: error: ld returned 1 exit status\n"
    found = parse(output, "nvcc", Texts({}))
    assert [(d.tool, d.message) for d in found] == [
        ("ld", "there is no library -lcublas on this machine")
    ]
