"""`__CUDA_ARCH__` in comparisons: the name and the number change together.

The scales have nothing to do with each other (sm_80 is 800, mp_22 is 220), so a comparison that
kept NVIDIA's number would be false on every card and take the wrong branch without a word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from musaagent.tools.host.lexer import Kind, Token, following, previous

MACRO = "__CUDA_ARCH__"
# What NVIDIA's generations brought, by the Moore Threads generation that has it: up to sm_75 every
# card of ours; bf16 came with sm_80 there and mp_22 here; fp8 with sm_89 and sm_90, and mp_31.
_STEPS = ((750, 210), (800, 220), (900, 310))
NEVER = 9999
"""Above every card's number: the branch of a generation that has no counterpart."""

_MIRROR = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Rescaled:
    """A comparison in MUSA's scale: indices of the operator and the number, and their new texts."""

    operator: int
    number: int
    operator_text: str
    number_text: str
    doubt: str = ""
    """Why a person should look at it; empty where the meaning is kept."""


def threshold(number: int) -> int:
    """The `__MUSA_ARCH__` from which on `__CUDA_ARCH__ >= number` holds."""
    for cuda, musa in _STEPS:
        if number <= cuda:
            return musa
    return NEVER


def rescale(tokens: Sequence[Token], index: int) -> Rescaled | None:
    """The comparison that the macro at `index` is part of; None where it is in none."""
    for step, mirrored in ((following, False), (previous, True)):
        place = step(tokens, index)
        number = step(tokens, place) if 0 <= place < len(tokens) else -1
        if not 0 <= number < len(tokens) or tokens[place].text not in _MIRROR:
            continue
        value = _value(tokens[number])
        if value is None:
            continue
        text = tokens[place].text
        relation = _MIRROR[text] if mirrored else text
        new_relation, new_number, doubt = _rescaled(relation, value)
        if mirrored:
            new_relation = _MIRROR[new_relation]
        return Rescaled(place, number, new_relation, str(new_number), doubt)
    return None


def _rescaled(relation: str, value: int) -> tuple[str, int, str]:
    """`> n` is `>= n + 1`, `<= n` is `< n + 1`: steps between cards are wider than one."""
    if relation in ("==", "!="):
        doubt = f"{MACRO} {relation} {value} names one NVIDIA generation, which no card of ours is"
        return relation, threshold(value), doubt
    least = value + 1 if relation in (">", "<=") else value
    if least <= 1:
        return relation, value, ""  # a test for device code
    new = threshold(least)
    doubt = f"no Moore Threads card has what sm_{least // 10} brought" if new == NEVER else ""
    return (">=" if relation in (">", ">=") else "<"), new, doubt


def _value(token: Token) -> int | None:
    if token.kind is not Kind.NUMBER:
        return None
    text = token.text.rstrip("uUlL")
    return int(text) if text.isdigit() else None
