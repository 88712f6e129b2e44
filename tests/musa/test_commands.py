"""Every command line that the real mcc would be given, architecture by architecture."""

import shlex
from pathlib import Path

import pytest

from musaagent.errors import ToolchainMissing
from musaagent.tools.host.sources import SourceSet, pieces
from musaagent.tools.host.toolchain import Compiler, TorchHeaders, python_include
from musaagent.tools.musa import toolchain
from musaagent.tools.musa.cards import ARCHS
from musaagent.tools.musa.commands import Places, build_script, cxx11_abi, mcc_command
from musaagent.tools.musa.toolchain import MusaToolkit, TorchMusa, find_toolkit
from musaagent.tools.musa.units import make_units

KERNEL = """#include <musa_runtime.h>
__global__ void k(float* x) { x[threadIdx.x] = 1; }
void run(at::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>()); }
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    torch, musa = tmp_path / "torch", tmp_path / "torch_musa"
    for folder in (
        torch / "include" / "torch" / "csrc" / "api" / "include",
        musa / "share" / "generated_cuda_compatible" / "include",
        musa / "share" / "torch_musa_codegen",
    ):
        folder.mkdir(parents=True)
    return Places(tmp_path / "thin", TorchHeaders(torch, "2.7.1"), TorchMusa(musa, "2.7.1"))


@pytest.fixture
def toolkit(tmp_path: Path) -> MusaToolkit:
    home = tmp_path / "musa"
    (home / "lib").mkdir(parents=True)
    return MusaToolkit(home / "bin" / "mcc", home, "5.2.0", "mcc version 5.2.0")


GXX = Compiler("/usr/bin/g++", "g++", "12.2.0")
SOURCES = SourceSet(
    name="ext",
    cpp_sources=("void run(at::Tensor x);",),
    cuda_sources=(KERNEL,),
    functions=("run",),
    extra_cflags=("-O2",),
)


def lines(
    sources: SourceSet, level: str, arch: str, toolkit: MusaToolkit, places: Places
) -> list[list[str]]:
    units = make_units(sources, pieces(sources), level)  # type: ignore[arg-type]
    script = build_script(sources, units, level, arch, toolkit, GXX, places)  # type: ignore[arg-type]
    commands = [
        shlex.split(line.split(" >")[0]) for line in script.text.splitlines() if " >" in line
    ]
    assert script.text.startswith("unset CC\n")
    return commands


@pytest.mark.parametrize("arch", ARCHS)
def test_the_full_build_is_torch_musas_with_its_traps_mended(
    arch: str, toolkit: MusaToolkit, places: Places
) -> None:
    cxx, mcc, link = lines(SOURCES, "full", arch, toolkit, places)
    home, torch, musa = toolkit.home, places.torch, places.torch_musa
    assert torch is not None
    assert musa is not None
    system = [
        *(musa.root / "share" / "generated_cuda_compatible" / "include",),
        *(musa.root / "share" / "torch_musa_codegen", musa.root.parent),
        *(torch.include[0], torch.include[1], home / "include", python_include()),
    ]
    includes = ["-I.", *(w for path in system for w in ("-isystem", str(path)))]
    defines = [
        "-DTORCH_EXTENSION_NAME=ext",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        "-D_GLIBCXX_USE_CXX11_ABI=1",
    ]
    assert mcc == [
        str(home / "bin" / "mcc"),
        f"--offload-arch={arch}",  # the loader gives none
        *("-fPIC", "-fno-color-diagnostics", "-fno-caret-diagnostics", "-O3", "-std=c++17"),
        *defines,
        *includes,
        *("-c", "musa.mu", "-o", "1.o"),
    ]
    assert "-ccbin" not in mcc
    assert cxx == [
        *("/usr/bin/g++", "-fPIC", "-std=c++17", "-fdiagnostics-color=never"),
        *("-fno-diagnostics-show-caret", "-fmessage-length=0"),
        *defines,
        *includes,
        *("-O2", "-c", "main.cpp", "-o", "0.o"),
    ]
    assert link == [
        *("/usr/bin/g++", "-shared", "0.o", "1.o", "-o", "module.so"),
        f"-L{torch.root / 'lib'}",
        *("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", f"-Wl,-rpath,{torch.root / 'lib'}"),
        f"-L{musa.root / 'lib'}",
        *("-lmusa_python", "-lmusa_kernels", f"-Wl,-rpath,{musa.root / 'lib'}"),
        *(f"-L{home / 'lib'}", "-lmusart", f"-Wl,-rpath,{home / 'lib'}"),
    ]


@pytest.mark.parametrize("arch", ARCHS)
def test_the_thin_build_needs_no_torch_musa(
    arch: str, toolkit: MusaToolkit, places: Places
) -> None:
    _, mcc = lines(SOURCES, "thin", arch, toolkit, places)
    assert mcc == [
        str(toolkit.home / "bin" / "mcc"),
        f"--offload-arch={arch}",
        *("-fPIC", "-fno-color-diagnostics", "-fno-caret-diagnostics", "-O3", "-std=c++20"),
        *("-DMUSACUDA_DEVICE", "-I.", f"-I{places.thin_headers}"),
        *("-isystem", str(toolkit.home / "include"), "-c", "musa.mu", "-o", "1.o"),
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("-O1",), ["-O1"]),
        (("-std=c++14",), ["-std=c++14"]),
        (("--use_fast_math",), ["-ffast-math", "-fno-finite-math-only"]),
        (("-gencode=arch=compute_80,code=sm_80", "--expt-relaxed-constexpr"), []),
        (("--offload-arch=mp_31",), []),  # the card decides
        (("-mtgpu", "-Od3"), ["-mtgpu", "-Od3"]),
    ],
)
def test_flags_of_the_candidate(
    given: tuple[str, ...], kept: list[str], toolkit: MusaToolkit, places: Places
) -> None:
    sources = SOURCES.model_copy(update={"extra_cuda_cflags": given})
    line = mcc_command(sources, "full", "mp_22", toolkit, places)
    plain = mcc_command(SOURCES, "full", "mp_22", toolkit, places)
    assert [flag for flag in line if flag not in plain] == kept
    assert line.count("--offload-arch=mp_22") == 1
    assert sum(flag in ("-O1", "-O3") for flag in line) == 1
    assert sum(flag.startswith("-std=") for flag in line) == 1


def test_the_abi_of_an_older_torch(places: Places) -> None:
    assert places.torch is not None
    folder = places.torch.root / "share" / "cmake" / "Torch"
    folder.mkdir(parents=True)
    (folder / "TorchConfig.cmake").write_text('set(X "-D_GLIBCXX_USE_CXX11_ABI=0")\n')
    cxx11_abi.cache_clear()
    assert cxx11_abi(places.torch) == 0
    cxx11_abi.cache_clear()


CUDA = KERNEL.replace("musa_runtime", "cuda_runtime") + "cudaError_t e = cudaGetLastError();\n"


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        # torch_musa's loader, or stock's, in MUSA names.
        (SOURCES, ["main.cpp", "musa.mu"]),
        # Stock load_inline in CUDA names, with torchada beside it or not.
        (SOURCES.model_copy(update={"cuda_sources": (CUDA,)}), ["main.cpp", "musa.mu"]),
        # KernelBench's MUSA port: everything in cpp_sources.
        (
            SOURCES.model_copy(update={"cpp_sources": (KERNEL,), "cuda_sources": ()}),
            ["musa.mu"],
        ),
    ],
)
def test_three_spellings_make_musa_units(sources: SourceSet, names: list[str]) -> None:
    units = make_units(sources, pieces(sources), "full")
    assert [unit.file_name for unit in units] == names
    text = units[-1].text
    assert "#include <musa_runtime.h>" in text
    assert "cuda" not in text.replace("cuda_sources", "")
    assert "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)" in units[0].text


def test_lines_of_ported_sources_are_the_candidates() -> None:
    sources = SOURCES.model_copy(update={"cuda_sources": (CUDA,)})
    text = make_units(sources, pieces(sources), "thin")[-1].text
    start = text.index('#line 1 "cuda_sources[0]"\n')
    assert text[start:].split("\n")[4] == "musaError_t e = musaGetLastError();"


def fake_mcc(folder: Path, banner: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    mcc = folder / "bin" / "mcc"
    mcc.write_text(f"#!/bin/sh\n[ -z \"$CC\" ] || exit 1\necho '{banner}'\n")
    mcc.chmod(0o755)
    return mcc


def test_mcc_is_found_by_home_then_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "DEFAULT_HOME", tmp_path / "default")
    for name in ("MUSA_HOME", "MUSA_PATH", "PYTORCH_MCC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(ToolchainMissing, match=r"default/bin/mcc.*MUSA_HOME"):
        find_toolkit()
    on_path = fake_mcc(tmp_path / "path", "mcc version 4.3.5")
    monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CC", "/usr/bin/gcc")  # a trap of torch_musa's loader, none of ours
    found = find_toolkit()
    assert (found.mcc, found.home, found.version) == (on_path, tmp_path / "path", "4.3.5")
    at_home = fake_mcc(tmp_path / "home", "mcc version 5.2.0")
    monkeypatch.setenv("MUSA_HOME", str(tmp_path / "home"))
    found = find_toolkit()
    assert (found.mcc, found.version) == (at_home, "5.2.0")
    (tmp_path / "home" / "lib64").mkdir()
    assert found.libraries.name == "lib64"
    assert not found.is_stand_in
