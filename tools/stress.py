"""Inputs and weights that the task does not draw, and that its op must still be right on.

Runs in the reference's worker. A lane that the op is not defined on shows in the reference itself
(it raises, or returns NaN), and the parent leaves it out.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch

_FEW = 3
"""Elements that the `few` and the infinity lanes change, the last one beside."""
_DENORMAL = 1e-39
_BEYOND = 1 << 22
_ALL_BUT_ZERO = 1e-3
"""Weights and fixed inputs that are smaller everywhere may hide what they scale."""

Tensors = list[torch.Tensor]


def stressed(name: str, drawn: Sequence[torch.Tensor], other: Tensors, seed: int) -> Tensors | None:
    """The drawn inputs changed as lane `name` says; None where it changes nothing.

    `other` is a second draw of the same inputs. Shapes and dtypes stay.
    """
    generator = torch.Generator().manual_seed(seed)
    if name == "few":
        return _few(drawn, other, generator)
    if name == "fixed":
        return _moved(drawn, other, generator)
    if name == "views":
        return _relaid(drawn)
    if name == "integers":
        return _below_zero(drawn, generator)
    change = _LANES[name]
    changed = [change(t, generator) if _takes(t) else t.clone() for t in drawn]
    alike = all(_same(a, b) for a, b in zip(changed, drawn, strict=True))
    return None if alike else changed


def _takes(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.numel() > 1


def _below_zero(drawn: Sequence[torch.Tensor], generator: torch.Generator) -> Tensors | None:
    """Integers that are data (of two dimensions, more than a mask's 0 and 1) get some below zero.

    They lie beyond any size, so that an index among them is refused by the reference.
    """
    changed = []
    for tensor in drawn:
        counts = tensor.dim() >= 2 and tensor.dtype in (torch.int32, torch.int64)
        if counts and tensor.numel() and int(tensor.min()) >= 0 and int(tensor.max()) > 1:
            picked = torch.rand(tensor.shape, generator=generator) < 0.25
            changed.append(torch.where(picked, -tensor - _BEYOND, tensor))
        else:
            changed.append(tensor.clone())
    return None if all(_same(a, b) for a, b in zip(changed, drawn, strict=True)) else changed


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.nan_to_num(), b.nan_to_num())


def _few(drawn: Sequence[torch.Tensor], other: Tensors, generator: torch.Generator) -> Tensors:
    """All but a few elements are those of the last run: a cache that samples them shows."""
    changed = []
    for old, new in zip(drawn, other, strict=True):
        tensor = old.clone()
        if tensor.shape == new.shape and tensor.numel():
            flat, fresh = tensor.reshape(-1), new.reshape(-1)
            picked = torch.randint(flat.numel(), (_FEW,), generator=generator)
            picked[-1] = flat.numel() - 1
            flat[picked] = fresh[picked]
            tensor = flat.reshape(tensor.shape)
        changed.append(tensor)
    return changed


def _moved(
    drawn: Sequence[torch.Tensor], other: Tensors, generator: torch.Generator
) -> Tensors | None:
    """What both draws have alike (zeros, a mask of ones, lengths) is changed, within its range."""
    changed = []
    for old, again in zip(drawn, other, strict=True):
        alike = old.shape == again.shape and old.numel() > 0 and _same(old, again)
        changed.append(_unfixed(old, generator) if alike else old.clone())
    return None if all(_same(a, b) for a, b in zip(changed, drawn, strict=True)) else changed


def _unfixed(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values that the op can take as well: indices and lengths do not leave the range they had."""
    first = tensor.reshape(-1)[0]
    if not bool((tensor == first).all()):
        return _disordered(tensor, generator)
    if tensor.dtype == torch.bool:
        return tensor ^ (torch.rand(tensor.shape, generator=generator) < 0.25)
    if tensor.is_floating_point():
        return _redrawn(tensor, generator) if bool(first.isfinite()) else tensor.clone()
    if tensor.is_complex() or int(first) < 1:
        return tensor.clone()
    low = 0 if int(first) == 1 else 1
    return torch.randint(low, int(first) + 1, tensor.shape, generator=generator).to(tensor.dtype)


def _disordered(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other places for the same values in each row; offsets stay in order."""
    if tensor.dim() == 1 and not tensor.is_floating_point() and not tensor.is_complex():
        wide = tensor.long()
        if bool((wide.diff() >= 0).all()):
            low, high = int(wide[0]), int(wide[-1])
            drawn = torch.randint(low, high + 1, wide.shape, generator=generator).sort().values
            drawn[0], drawn[-1] = low, high
            return drawn.to(tensor.dtype)
    for dim in reversed(range(tensor.dim())):
        order = torch.randperm(tensor.shape[dim], generator=generator)
        moved = tensor.index_select(dim, order)
        if not _same(moved, tensor):
            return moved
    return tensor.clone()


def _relaid(drawn: Sequence[torch.Tensor]) -> Tensors | None:
    """The same values with other strides."""
    if not any(t.numel() > 1 for t in drawn):
        return None
    changed = []
    for tensor in drawn:
        if tensor.dim() >= 2:
            changed.append(tensor.transpose(-1, -2).contiguous().transpose(-1, -2))
        elif tensor.dim() == 1 and tensor.numel() > 1:
            changed.append(torch.stack([tensor, tensor], dim=1)[:, 0])
        else:
            changed.append(tensor.clone())
    return changed


def _scaled(factor: float) -> Callable[[torch.Tensor, torch.Generator], torch.Tensor]:
    return lambda tensor, generator: tensor * factor


def _spikes(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A few values that outweigh all others: one that is left out shows in any sum."""
    flat = tensor.clone().reshape(-1)
    picked = torch.randint(flat.numel(), (_FEW,), generator=generator)
    picked[-1] = flat.numel() - 1
    flat[picked] *= 1e3
    return flat.reshape(tensor.shape)


def _heavy(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Sizes over some powers of ten, signs kept: a sum depends on each part that is sampled."""
    powers = (2 * torch.randn(tensor.shape, generator=generator)).clamp(-8, 8).exp()
    return tensor * powers.to(tensor.dtype)


def _dips(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A few values of the other sign: what samples the values to tell the sign misses them."""
    flat = tensor.clone().reshape(-1)
    picked = torch.randint(flat.numel(), (_FEW,), generator=generator)
    flat[picked] = -flat[picked]
    return flat.reshape(tensor.shape)


def _negative(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """No positive value anywhere: what starts a maximum at zero shows."""
    return -tensor.abs()


def _ties(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Few different values, so that most have an equal."""
    return (tensor * 2).round() / 2


def _constant(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Every row one value."""
    return tensor[..., :1].expand_as(tensor).clone() if tensor.dim() else tensor.clone()


def _denormals(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Every other value far below the smallest normal one."""
    tiny = torch.rand(tensor.shape, generator=generator) < 0.5
    return torch.where(tiny, tensor * _DENORMAL, tensor)


def _infinite(*values: float) -> Callable[[torch.Tensor, torch.Generator], torch.Tensor]:
    def change(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        flat = tensor.clone().reshape(-1)
        picked = torch.randint(flat.numel(), (_FEW,), generator=generator)
        for index, place in enumerate(picked.tolist()):
            flat[place] = values[index % len(values)]
        return flat.reshape(tensor.shape)

    return change


_LANES: Mapping[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "small": _scaled(1e-3),
    "large": _scaled(1e3),
    "spikes": _spikes,
    "heavy": _heavy,
    "dips": _dips,
    "negative": _negative,
    "ties": _ties,
    "constant": _constant,
    "denormals": _denormals,
    "infinities": _infinite(math.inf, -math.inf),
    "minus_infinity": _infinite(-math.inf),
}


def other_weights(
    module: torch.nn.Module, generator: torch.Generator
) -> dict[str, torch.Tensor] | None:
    """Parameters and running statistics drawn anew; None where the module has none.

    What was all ones is drawn about one, what was all zeros about zero, anything else at its own
    spread; what had no negative value gets none. What was all but zero (the 1e-6 of a layer scale)
    is drawn as if it were not: a step that it switches off must be there.
    """
    names = {name for name, _ in module.named_parameters()}
    changed = {}
    for name, tensor in module.state_dict().items():
        drawn = name in names or name.rpartition(".")[2] in ("running_mean", "running_var")
        if drawn and tensor.is_floating_point() and tensor.numel():
            changed[name] = _redrawn(tensor, generator)
    return changed or None


def _redrawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = tensor.detach().double()
    low, high = float(wide.min()), float(wide.max())
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    if low == high == 0:
        made = 0.3 * noise
    elif max(high, -low) < _ALL_BUT_ZERO:
        made = 0.1 * (noise if low < 0 else noise.abs())
    elif low >= 0:
        made = 0.5 * (low + high) * (0.5 + torch.rand(tensor.shape, generator=generator))
    else:
        made = noise * float(wide.std(correction=0)) + float(wide.mean())
    return made.to(tensor.dtype)
