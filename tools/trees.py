"""Nested Python values with tensors in them, as a JSON tree and a flat list of tensors.

Inputs, init inputs and outputs cross between processes in this form, never as pickles. Runs in the
workers (torch needed only to recognise tensors) and, for reading trees, in the parent.
"""

from typing import Any

Tree = dict[str, Any]


class UnsupportedValue(ValueError):
    """A value that cannot cross; str() names its type and place."""


def flatten(value: Any, place: str = "value") -> tuple[Tree, list[Any]]:
    """`(tree, tensors)`. Raises UnsupportedValue for types that cannot cross."""
    tensors: list[Any] = []
    return _flatten(value, place, tensors), tensors


def _flatten(value: Any, place: str, tensors: list[Any]) -> Tree:
    import torch

    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"kind": "tensor", "index": len(tensors) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return {"kind": "value", "value": value}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        items = [_flatten(v, f"{place}[{i}]", tensors) for i, v in enumerate(value)]
        return {"kind": kind, "items": items}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise UnsupportedValue(f"{place}: a dict with keys that are no strings")
        return {
            "kind": "dict",
            "items": {k: _flatten(v, f"{place}[{k!r}]", tensors) for k, v in value.items()},
        }
    if isinstance(value, torch.dtype):
        return {"kind": "dtype", "name": str(value).removeprefix("torch.")}
    if isinstance(value, torch.Size):
        return {"kind": "tuple", "items": [_flatten(int(v), place, tensors) for v in value]}
    if isinstance(value, torch.device):
        return {"kind": "device", "name": str(value)}
    raise UnsupportedValue(f"{place}: a {type(value).__name__} is neither tensor nor plain value")


def unflatten(tree: Tree, tensors: list[Any]) -> Any:
    """The inverse of `flatten`; a bad index raises IndexError."""
    kind = tree["kind"]
    if kind == "tensor":
        return tensors[tree["index"]]
    if kind == "value":
        return tree["value"]
    if kind == "tuple":
        return tuple(unflatten(item, tensors) for item in tree["items"])
    if kind == "list":
        return [unflatten(item, tensors) for item in tree["items"]]
    if kind == "dict":
        return {key: unflatten(item, tensors) for key, item in tree["items"].items()}
    import torch

    if kind == "dtype":
        return getattr(torch, tree["name"])
    if kind == "device":
        return torch.device(tree["name"])
    raise UnsupportedValue(f"unknown tree kind {kind!r}")


def skeleton(tree: Tree) -> Any:
    """The nesting alone, comparable with ==: lists and tuples are one, tensors are `T`."""
    kind = tree.get("kind")
    if kind == "tensor":
        return "T"
    if kind in ("tuple", "list"):
        return [skeleton(item) for item in tree["items"]]
    if kind == "dict":
        return {key: skeleton(item) for key, item in tree["items"].items()}
    return ("V", tree.get("value", tree.get("name")))
