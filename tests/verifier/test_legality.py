"""Bookkeeping operators pass; work does not."""

from musaagent.tools.legality import illegal_operators


def test_bookkeeping_is_legal() -> None:
    names = ["aten.empty.memory_format", "aten.view.default", "aten::contiguous", "aten.t.default"]
    assert illegal_operators(names) == ()


def test_work_is_named_once_in_order() -> None:
    names = ["aten.mm.default", "aten.view.default", "aten::relu", "aten.mm.default"]
    assert illegal_operators(names) == ("aten.mm.default", "aten::relu")


def test_operators_of_other_libraries_are_work() -> None:
    assert illegal_operators(["xformers.attention.default"]) == ("xformers.attention.default",)
