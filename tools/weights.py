"""Weights and inputs in the candidate's worker: made the reference's, changed, moved."""

from typing import Any


def align_state(model: Any, state: dict[str, Any]) -> str:
    """Make the weights the reference's: `equal`, `loaded`, or `differs` (in words).

    They are the reference's where equal seeds made them so, under whatever names, or where its
    state_dict loads strictly. A module with other names and other values is no port of it.
    """
    import torch

    own = model.state_dict()
    if own.keys() == state.keys():
        if all(own[k].shape == v.shape for k, v in state.items()):
            if all(torch.equal(own[k], v) for k, v in state.items()):
                return "equal"
            model.load_state_dict(state, strict=True)
            return "loaded"
        return "differs: shapes of the parameters"
    have, want = list(own.values()), list(state.values())
    if len(have) != len(want):
        if not state:
            return "equal"
        return f"differs: {len(have)} parameters and buffers, the reference has {len(want)}"
    same = zip(have, want, strict=True)
    if all(a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b) for a, b in same):
        return "equal"
    strange = next(name for name in own if name not in state)
    return f"differs: {strange} is no name of the reference's, and equal seeds give other values"


def load_state(model: Any, state: dict[str, Any]) -> bool:
    """Strictly by name, or by place where only names differ; False where neither fits."""
    own = model.state_dict()
    if own.keys() == state.keys():
        if any(own[k].shape != v.shape for k, v in state.items()):
            return False
        model.load_state_dict(state, strict=True)
        return True
    values = list(state.values())
    fits = len(own) == len(values) and all(
        a.shape == b.shape and a.dtype == b.dtype for a, b in zip(own.values(), values, strict=True)
    )
    if fits:
        model.load_state_dict(dict(zip(own, values, strict=True)), strict=True)
    return fits


def shifted(tensor: Any) -> Any:
    """The same values and strides, one element into a storage of their own."""
    import torch

    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if not tensor.numel():
        return tensor
    flat = torch.zeros(span + 1, dtype=tensor.dtype)
    moved = flat.as_strided(tensor.shape, tensor.stride(), 1)
    moved.copy_(tensor)
    return moved
