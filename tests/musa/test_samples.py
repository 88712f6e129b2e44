"""Published output of Moore Threads' tools, read; where the forms conflict, both are taken."""

from pathlib import Path

import pytest

from musaagent.tools.cuda.bound import classify
from musaagent.tools.host.diagnostics import Texts, parse
from musaagent.tools.musa import gmi, profilers
from musaagent.tools.musa.cards import card_named
from musaagent.tools.musa.toolchain import mcc_version
from musaagent.tools.ptxas import base_name

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    text = (SAMPLES / name).read_text(encoding="utf-8")
    assert text.startswith("# source: ")
    return text.partition("\n")[2]


@pytest.mark.parametrize(
    ("version", "driver", "name", "load", "used", "total", "degrees", "arch"),
    [
        ("2.4.1", "5.1.0-server", "MTT S5000", 0, 0, 81920, 48, "mp_31"),
        ("1.14.0", "2.7.0", "MTT S80", 0, 2, 16384, 49, "mp_21"),
        ("2.3.4", "2.9.2-000", "MTT S3000", 58, 30094, 32768, 57, "mp_21"),
    ],
)
def test_mthreads_gmi(
    version: str, driver: str, name: str, load: int, used: int, total: int, degrees: int, arch: str
) -> None:
    text = sample(f"mthreads-gmi-{version}.txt")
    (card,) = gmi.parse_states(text)
    assert (card.index, card.name, card.load_pct) == (0, name, load)
    assert (card.used_mb, card.total_mb, card.temperature_c) == (used, total, degrees)
    assert gmi.parse_driver(text) == driver
    known = card_named(card.name)
    assert known is not None
    assert known.arch == arch


def test_several_cards_and_none() -> None:
    text = sample("mthreads-gmi-2.4.1.txt")
    row = text.split("\n")[8:11]
    second = "\n".join(row).replace("0    MTT S5000", "1    MTT S4000").replace("48C", "61C")
    cards = gmi.parse_states(text + second)
    assert [(c.index, c.name, c.temperature_c) for c in cards] == [
        (0, "MTT S5000", 48),
        (1, "MTT S4000", 61),
    ]
    assert gmi.parse_states("Error: failed to initialize MTML\n") == ()


def test_musainfo() -> None:
    text = sample("musaInfo-5.2.txt")
    assert gmi.parse_capabilities(text) == ("mp_31",)
    properties = gmi.parse_properties(text)
    assert properties["warpSize"] == "32"
    assert properties["sharedMemPerBlock"] == "192.00 KB"


def test_diagnostics_of_mcc_with_their_closing_line() -> None:
    source = "__cvta_grid_constant_to_generic.cu"
    texts = Texts({source: "\n" * 23 + "bool c = __isGridConstant(p);\n"})
    found = parse(sample("mcc-undeclared.txt"), "mcc", texts)
    assert [(d.tool, d.severity, d.source, d.line, d.column) for d in found] == [
        ("mcc", "error", source, 24, 58),
        ("mcc", "error", source, 29, 26),
    ]
    assert found[0].text == "bool c = __isGridConstant(p);"
    assert "did you mean '__isConstant'" in found[0].message


def test_a_missing_header_is_told_at_the_line_that_includes_it() -> None:
    texts = Texts({"compatible_signbitl.cu": "#include <a.h>\n" * 8})
    (found,) = parse(sample("mcc-header.txt"), "mcc", texts)
    assert (found.source, found.line) == ("compatible_signbitl.cu", 6)
    assert found.message == "'quadmath.h' file not found"


def test_mcu_tables_and_lines() -> None:
    (kernel,) = profilers.parse_mcu(sample("mcu-details-1.3.txt"))
    assert base_name(kernel.kernel) == "kernel"
    assert (kernel.grid, kernel.block) == ((32, 1, 1), (256, 1, 1))
    assert kernel.counters == {"sm_pct": 45.8, "time_ns": 22610.0}
    (lines,) = profilers.parse_mcu(sample("mcu-lines.txt"))
    assert lines.counters == {"sm_pct": 73.5, "dram_pct": 42.0}
    (repeated,) = profilers.parse_mcu(sample("mcu-repeated-name.txt"))
    assert repeated.counters == {"dram_pct": 45.32}


def test_the_bound_comes_of_the_same_rules_as_on_nvidia() -> None:
    assert classify(profilers.weighted(profilers.parse_mcu(sample("mcu-lines.txt")))) == "compute"


def test_what_mcu_refuses_is_told_in_its_words() -> None:
    assert profilers.parse_mcu("==ERROR== The application returned an error code (1)\n") == []
    text = "==PROF== Disconnected\n==ERROR== No permission for performance counters\n"
    assert profilers.mcu_refusal(text) == "No permission for performance counters"
    assert profilers.mcu_refusal("No kernels were profiled.\n") == "No kernels were profiled."


def test_msys_kernel_sums() -> None:
    ((name, count, total),) = profilers.parse_msys_kernels(sample("msys-kern-sum.csv"))
    assert (base_name(name), count, total) == ("InTopKKernel", 151, 36791452.0)
    by_mean = "Name,Instances,Avg (ns)\nk,3,10\n"
    assert profilers.parse_msys_kernels(by_mean) == [("k", 3, 30.0)]
    assert profilers.parse_msys_kernels("no csv") == []


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ("mcc version 3.1.0 (abc)\nTarget: x86_64", "3.1.0"),
        ("clang version 14.0.0 (mcc 4.3.5)", "14.0.0"),
        ('musa_toolkits:\n{\n"version": "5.2.0",\n}\nmcc:\n{\n"version": "5.2.1",\n}', "5.2.1"),
        ("no compiler", ""),
    ],
)
def test_versions_of_mcc(banner: str, version: str) -> None:
    assert mcc_version(banner) == version


def test_the_cards_state_is_told_and_a_busy_card_is_doubted() -> None:
    text = (SAMPLES / "mthreads-gmi-2.4.1.txt").read_text()
    clock = gmi.parse_properties((SAMPLES / "musaInfo-5.2.txt").read_text())["clockRate"]
    said, doubt = gmi.describe_state(0, gmi.parse_states(text), clock)
    assert said == "load 0 %, 0 of 81920 MiB in use, 48 C, clock 1500 Mhz"
    assert doubt == ""
    said, doubt = gmi.describe_state(
        0, gmi.parse_states(text.replace("|0%    0MiB", "|37%   9MiB")), ""
    )
    assert said == "load 37 %, 9 of 81920 MiB in use, 48 C"
    assert doubt == "the card was busy before time was taken: 37 %"
    assert gmi.describe_state(1, gmi.parse_states(text), "")[1] != ""
