"""The choices that a revision may change: they alter how a kernel runs, never what it computes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Schedule:
    block: int = 256
    """Threads of a block in elementwise kernels and reductions."""
    vector: int = 4
    """Most elements that a thread moves by one access (never over 16 bytes)."""
    fuse: bool = True
    """Whether reductions, scans and families take elementwise code into their kernels."""
    split: bool = True
    """Whether long reductions with few results are shared out over blocks."""
    precise: bool = False
    """Accumulate in double."""
    unroll: int = 4
    """Independent loads that a reducing thread has in flight."""
    choices: Mapping[str, int] = field(default_factory=dict)
    """Families' own tunables, as `matmul.tile_m`."""

    def choice(self, name: str, default: int) -> int:
        return self.choices.get(name, default)

    def but(self, **changes: Any) -> "Schedule":
        """A copy with changes; `choices` are merged."""
        if "choices" in changes:
            changes["choices"] = {**self.choices, **changes["choices"]}
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "choices": dict(self.choices)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Schedule":
        return Schedule(**data)


Alternatives = Callable[[Schedule, str], Iterable[Schedule]]
"""(the schedule that runs now, what bounds it) -> others to try, best guess first."""

_TUNERS: dict[str, Alternatives] = {}
_SMALLER: dict[str, Callable[[Schedule], Schedule]] = {}


def tunes(kind: str) -> Callable[[Alternatives], Alternatives]:
    """Register the alternatives of a `Custom` subclass, by its class name."""

    def register(function: Alternatives) -> Alternatives:
        _TUNERS[kind] = function
        return function

    return register


def shrinks(
    kind: str,
) -> Callable[[Callable[[Schedule], Schedule]], Callable[[Schedule], Schedule]]:
    """Register how a `Custom` subclass takes less shared memory and fewer registers."""

    def register(function: Callable[[Schedule], Schedule]) -> Callable[[Schedule], Schedule]:
        _SMALLER[kind] = function
        return function

    return register


def alternatives(kinds: Iterable[str], now: Schedule, bound: str) -> list[Schedule]:
    """What to try next for kernels of these kinds; the families' own choices come first."""
    return [*families_alternatives(kinds, now, bound), *_common(now, bound)]


def families_alternatives(kinds: Iterable[str], now: Schedule, bound: str) -> list[Schedule]:
    """The families' own choices alone, such as tiles, which change how often memory is read."""
    known = [kind for kind in sorted(kinds) if kind in _TUNERS]
    return [made for kind in known for made in _TUNERS[kind](now, bound)]


def smaller(kinds: Iterable[str], now: Schedule) -> Schedule:
    """The same program with smaller blocks and tiles."""
    made = now.but(block=max(now.block // 2, 64), unroll=1)
    for kind in sorted(kinds):
        if kind in _SMALLER:
            made = _SMALLER[kind](made)
    return made


def _common(now: Schedule, bound: str) -> list[Schedule]:
    """A memory-bound kernel wants wide accesses in flight, any other more or fewer threads."""
    wide = [now.but(vector=8), now.but(unroll=8), now.but(vector=8, block=512), now.but(vector=2)]
    blocks = [now.but(block=b) for b in (512, 128, 1024, 64)]
    return [*wide, *blocks] if bound in ("memory", "unknown") else [*blocks, *wide]
