"""From a plan to the text of a candidate, for one schedule."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from musaagent.policies.builtin import families
from musaagent.policies.builtin.dialect import Dialect, dialect_of
from musaagent.policies.builtin.fuse import Planner
from musaagent.policies.builtin.ir import Custom, Leaf, Reduced, Value
from musaagent.policies.builtin.kernel import Program
from musaagent.policies.builtin.lowering import Lowering
from musaagent.policies.builtin.schedule import Schedule
from musaagent.policies.builtin.sizes import Num, Refusal
from musaagent.policies.builtin.source import TaskText, task_text
from musaagent.tools.candidate import content_hash
from musaagent.tools.opgraph import OpGraph, Plan

assert families
_ENTRY = "run_model"


@dataclass(frozen=True)
class Generated:
    text: str
    """The candidate's Python source."""
    notes: tuple[str, ...]
    """One line for each kernel."""
    kinds: frozenset[str]
    """Class names of the families' kernels, and `Reduced`, that the graph has."""


def generate(task_source: str, plan: Plan, target: str, schedule: Schedule) -> Generated:
    """Raises Refusal, whose text names what is outside the families."""
    if plan.graph is None:
        raise Refusal(f"the task could not be traced: {plan.trace_error}")
    own = plan.graph
    graphs = [own, *(g for g in (plan.scaled_graph, plan.check_graph) if g is not None)]
    text = task_text(task_source)
    lowering = Lowering(graphs)
    outputs = lowering.run()
    values = list(_values(outputs))
    if not values:
        raise Refusal("forward returns no tensor")
    dialect = dialect_of(target)
    program = Program(dialect, schedule, _largest(graphs), _ENTRY)
    computed = [v for v in values if not isinstance(v, Leaf)]
    planner = Planner(program, computed, lowering.updates)
    planner.realise_all()
    for value in dict.fromkeys(computed):
        program.results.append(_stored(program, value))
    used = program.device_and_host()
    paths = _paths(own)
    program.parameters = [
        leaf
        for leaf in lowering.leaves.values()
        if leaf in program.used or f"{leaf.name}.size(" in used
    ]
    source = _candidate(text, program, dialect, _forward(own, text, program, outputs, paths))
    return Generated(source, tuple(program.notes), _kinds([*values, *lowering.updates.values()]))


def _values(nested: Any) -> list[Value]:
    if isinstance(nested, Value):
        return [nested]
    if isinstance(nested, Mapping):
        return [v for item in nested.values() for v in _values(item)]
    if isinstance(nested, (list, tuple)):
        return [v for item in nested for v in _values(item)]
    return []


def _stored(program: Program, value: Value) -> Leaf:
    leaf = program.memory(value)
    assert leaf is not None
    return leaf


def _largest(graphs: Sequence[OpGraph]) -> Num:
    """The element count of the largest tensor in each trace."""

    def count(graph: OpGraph) -> int:
        metas = [v.meta for v in (*graph.inputs, *graph.parameters, *graph.buffers)]
        metas += [meta for node in graph.nodes for meta in node.outputs]
        return max((math.prod(meta.shape) for meta in metas), default=1)

    return Num.of([count(g) for g in graphs], "0")


def _kinds(values: list[Value]) -> frozenset[str]:
    seen: set[Value] = set()
    stack = list(values)
    while stack:
        v = stack.pop()
        if v not in seen:
            seen.add(v)
            stack.extend(v.sources)
    return frozenset(type(v).__name__ for v in seen if isinstance(v, (Custom, Reduced)))


def _paths(graph: OpGraph) -> dict[str, str]:
    """The Python expression, in forward, of every tensor that may be passed."""
    paths = {}
    for value in (*graph.parameters, *graph.buffers, *graph.constants):
        parts = value.path.split(".")
        paths[value.name] = "self" + "".join(map(_member, parts)) if value.path else ""
    return paths


def _member(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name}]"


def _forward(
    graph: OpGraph, text: TaskText, program: Program, outputs: Any, paths: Mapping[str, str]
) -> list[str]:
    """The lines of forward."""
    lines = []
    for remark in graph.scalar_inputs:
        name, _, shown = remark.partition(" = ")
        if name in text.parameters and shown:
            lines.append(f"if {name} != {shown}:")
            message = f"this kernel is written for {remark}"
            lines.append(f"    raise ValueError({message!r})")
    lines += _unpacked(graph, text)
    passed = []
    for leaf in program.parameters:
        expression = paths.get(leaf.origin, leaf.origin)
        if not expression:
            raise Refusal("a tensor that the module makes in forward and does not hold")
        passed.append(expression)
    call = f"kernels.{program.entry}({', '.join(passed)})"
    if not program.results:
        lines += [call] if program.notes else []
    elif len(program.results) == 1:
        lines.append(f"result = {call}")
    else:
        lines.append(f"results = {call}")
    names = {
        leaf: "result" if len(program.results) == 1 else f"results[{k}]"
        for k, leaf in enumerate(program.results)
    }
    top = outputs[0] if len(outputs) == 1 else outputs
    lines.append(f"return {_python(top, program, names, paths)}")
    return lines


def _unpacked(graph: OpGraph, text: TaskText) -> list[str]:
    """Names for tensors that come nested in lists, tuples or dicts."""
    names = [v.name for v in graph.inputs]
    if all(n in text.parameters for n in names):
        return []
    every = ", ".join(text.parameters)
    return [f"{', '.join(names)}, = _tensors(({every},))"]


def _python(
    nested: Any, program: Program, names: Mapping[Leaf, str], paths: Mapping[str, str]
) -> str:
    if isinstance(nested, Leaf):
        return paths.get(nested.origin, nested.origin)
    if isinstance(nested, Value):
        return names[_stored(program, nested)]
    if isinstance(nested, Mapping):
        items = (f"{k!r}: {_python(v, program, names, paths)}" for k, v in nested.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(nested, (list, tuple)):
        return "(" + "".join(f"{_python(v, program, names, paths)}, " for v in nested) + ")"
    return repr(nested)


_TENSORS = '''
def _tensors(nested):
    """The tensors in nested containers, in order."""
    if isinstance(nested, torch.Tensor):
        return [nested]
    if isinstance(nested, dict):
        nested = list(nested.values())
    if isinstance(nested, (list, tuple)):
        return [t for item in nested for t in _tensors(item)]
    return []

'''


def _candidate(text: TaskText, program: Program, dialect: Dialect, forward: list[str]) -> str:
    device, prototype = program.device_source(), program.prototype() + ";"
    name = f"{program.entry}_{content_hash(device)}"
    helpers = _TENSORS if any("_tensors(" in line for line in forward) else ""
    body = "\n".join(f"        {line}" for line in forward)
    notes = "\n".join(f"#   {note}" for note in program.notes)
    signature = text.signature
    return f'''{text.prelude}
{dialect.loader}

# Kernels, in launch order:
{notes}
device_source = r"""
{device}
"""

kernels = load_inline(
    name="{name}",
    cpp_sources="{prototype}",
    {dialect.sources}=device_source,
    functions=["{program.entry}"],
    verbose=False,
)

{helpers}
class ModelNew({text.bases}):
{text.body}
    def forward({signature}):
{body}
'''
