"""The choices that a revision may change: they alter how a kernel runs, never what it computes."""

from collections.abc import Mapping
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
