"""What porting changed, and what it leaves to a person."""

from typing import Literal

from musaagent.tools.results import Diagnostic, Record

TOOL = "portability"


class Change(Record):
    """One token that was replaced."""

    kind: str
    """`name`, `header`, `namespace`, `device`, `dispatch`, `arch`, `python`, `flag`, `suffix`."""
    old: str
    new: str
    line: int


class Remark(Record):
    """One thing that no table can carry over."""

    kind: str
    """`inline_ptx`, `warp_size`, `cooperative_launch`, `unsupported`, `bf16`, `fp8`,
    `shared_memory`, `constant_memory`, `matrix_units`, `arch_threshold`, `version_threshold`,
    `library`, `header`, `pasting`, `python`, `flag`."""
    message: str
    severity: Literal["error", "warning"] = "warning"
    """`error`: it cannot compile, or cannot run on the card that was asked for."""
    source: str = ""
    """The file, or which text of a candidate."""
    line: int = 0
    """1-based, 0 for the whole file."""
    text: str = ""
    """The source line itself."""
    function: str = ""
    """The function around it."""

    def diagnostic(self) -> Diagnostic:
        """The same in the form of a compiler's message."""
        return Diagnostic(
            tool=TOOL,
            severity=self.severity,
            message=self.message,
            source=self.source,
            line=self.line,
            text=self.text,
            notes=(f"in {self.function}",) if self.function else (),
        )


class Ported(Record):
    """One text after porting."""

    text: str
    edits: tuple[tuple[int, int, str], ...] = ()
    """The same as places of the old text: from, to, new text."""
    changes: tuple[Change, ...] = ()
    remarks: tuple[Remark, ...] = ()
