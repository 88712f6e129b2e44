"""Moore Threads' management tools read: mthreads-gmi's table, musaInfo's list.

The forms are those of public documents and issues (tools of versions 1.14 to 2.4); samples with
their sources are in tests/musa/samples.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from musaagent.tools.cuda.devices import GpuInfo, visible
from musaagent.tools.musa.cards import DEFAULT_ARCH, arch_of_capability, card_named

_CARD = re.compile(
    r"^(?P<index>\d+)\s+(?P<name>\S.*?)\s*\|(?P<bus>[0-9a-fA-F:.]+)\s*\|"
    r"(?P<load>\d+)%\s+(?P<used>\d+)MiB\((?P<total>\d+)MiB\)"
)
_TEMPERATURE = re.compile(r"\|\s*(\d+)C\b")
_DRIVER = re.compile(r"Driver Version:\s*([\w.-]+)")
_CAPABILITY = re.compile(r"compute capability:\s*(\d+\.\d+)")
_PROPERTY = re.compile(r"^(\w[\w.# ]*?):\s*(.+?)\s*$")
_TIMEOUT_S = 30.0
_IDLE_PCT = 5
"""A load above it is somebody else's: candidates wait for their turn."""


@dataclass(frozen=True)
class CardState:
    """One row of mthreads-gmi's table."""

    index: int
    name: str
    bus: str
    load_pct: int
    used_mb: int
    total_mb: int
    temperature_c: int | None = None


def parse_states(text: str) -> tuple[CardState, ...]:
    """All cards of the table; lines that are none are left out."""
    found: list[CardState] = []
    for line in text.splitlines():
        line = line.strip()
        if match := _CARD.match(line):
            found.append(
                CardState(
                    int(match["index"]),
                    match["name"],
                    match["bus"],
                    int(match["load"]),
                    int(match["used"]),
                    int(match["total"]),
                )
            )
        elif found and found[-1].temperature_c is None and (t := _TEMPERATURE.search(line)):
            last = found[-1]
            found[-1] = CardState(
                last.index,
                last.name,
                last.bus,
                last.load_pct,
                last.used_mb,
                last.total_mb,
                int(t[1]),
            )
    return tuple(found)


def parse_driver(text: str) -> str:
    match = _DRIVER.search(text)
    return match[1] if match else ""


def parse_capabilities(text: str) -> tuple[str, ...]:
    """Architectures in musaInfo's order of devices, as `mp_31`."""
    return tuple(arch_of_capability(c) for c in _CAPABILITY.findall(text))


def parse_properties(text: str) -> dict[str, str]:
    """musaInfo's `name: value` lines of the first device, as they stand."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _PROPERTY.match(line.strip())
        if match and match[1] not in found:
            found[match[1]] = match[2]
    return found


def find_cards() -> tuple[GpuInfo, ...]:
    """All cards that MUSA_VISIBLE_DEVICES leaves; empty without a driver."""
    table = _run(["mthreads-gmi"])
    states = parse_states(table)
    if not states:
        return ()
    driver, archs = parse_driver(table), parse_capabilities(_run(["musaInfo"]))
    cards = tuple(
        GpuInfo(
            state.index,
            str(state.index),  # torch_musa names cards by number
            state.name,
            _arch(state, archs),
            state.total_mb,
            driver,
        )
        for state in states
    )
    return visible(cards, os.environ.get("MUSA_VISIBLE_DEVICES"))


def states_now() -> tuple[CardState, ...]:
    """Load, memory and temperature at this moment; empty without a driver."""
    return parse_states(_run(["mthreads-gmi"]))


def clock_now() -> str:
    """The clock that musaInfo states, as `1500 Mhz`; '' where it states none."""
    return parse_properties(_run(["musaInfo"])).get("clockRate", "")


def describe_state(index: int, states: tuple[CardState, ...], clock: str) -> tuple[str, str]:
    """One line of what card `index` is doing, and a doubt where others keep it busy."""
    state = next((s for s in states if s.index == index), None)
    if state is None:
        return "", "mthreads-gmi says nothing of this card's load"
    words = [f"load {state.load_pct} %", f"{state.used_mb} of {state.total_mb} MiB in use"]
    words += [f"{state.temperature_c} C"] if state.temperature_c is not None else []
    words += [f"clock {clock}"] if clock else []
    busy = state.load_pct > _IDLE_PCT
    doubt = f"the card was busy before time was taken: {state.load_pct} %" if busy else ""
    return ", ".join(words), doubt


def _arch(state: CardState, archs: tuple[str, ...]) -> str:
    card = card_named(state.name)
    if card is not None:
        return card.arch
    return archs[state.index] if state.index < len(archs) else DEFAULT_ARCH


def _run(command: list[str]) -> str:
    tool = shutil.which(command[0])
    if tool is None:
        return ""
    try:
        done = subprocess.run(
            [tool, *command[1:]], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
