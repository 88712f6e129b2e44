"""What a candidate's worker says of a run, or of the error that ended one, in the wire's terms."""

import traceback
from pathlib import Path
from typing import Any

from musaagent.tools import trees
from musaagent.tools.recorders import CANDIDATE_FILE
from musaagent.tools.watch import detached, members
from musaagent.tools.wire import encode_tensors

_TRACEBACK_LINES = 24
_MEMORY_WORDS = (
    *("can't allocate memory", "CUDA out of memory", "CUDA error: out of memory"),
    *("MUSA out of memory", "MUSA error: out of memory"),
)


def describe_error(error: BaseException) -> dict[str, Any]:
    """Type, text, and the lines of the candidate that led there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).name == CANDIDATE_FILE]
    line = own[-1].lineno if own else 0
    if isinstance(error, SyntaxError):
        line = error.lineno or 0
    text = "".join(traceback.format_exception_only(error)).strip()
    shown = [*traceback.format_list(own), text]
    return {
        "type": type(error).__name__,
        "message": str(error)[:4000],
        "line": line or 0,
        "traceback": "\n".join("".join(shown).splitlines()[-_TRACEBACK_LINES:])[:8000],
        "memory": isinstance(error, MemoryError)
        or any(words in str(error) for words in _MEMORY_WORDS),
    }


def odd_types(outputs: list[Any]) -> list[str]:
    """Of outputs that are no plain tensors."""
    import torch

    plain = (torch.Tensor, torch.nn.Parameter)
    return [type(t).__name__ for t in outputs if type(t) not in plain]


def packed(tree: trees.Tree, outputs: list[Any], model: Any) -> tuple[dict[str, Any], list[Any]]:
    """The answer of a run as far as it is values, and their bytes as they are now."""
    odd = odd_types(outputs)
    buffers = members(model, "_buffers")
    tensors = [detached(t) for t in (*outputs, *buffers.values())]
    metas, out = encode_tensors(tensors)
    answer = {
        "ok": True,
        "tree": tree,
        "tensors": metas,
        "buffers": list(buffers),
        "odd_types": odd,
    }
    return answer, [bytes(blob) for blob in out]
