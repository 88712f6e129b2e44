"""The plan of a task: traced, measured, scaled and probed, all in the jailed worker."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from musaagent.tools import scales
from musaagent.tools.candidate import content_hash
from musaagent.tools.cost import elements, flops, least_bytes
from musaagent.tools.dead_steps import dead_steps
from musaagent.tools.meaning import different_meaning
from musaagent.tools.opgraph import Plan, Trap
from musaagent.tools.reference import ReferenceModel, TaskCodeError
from musaagent.tools.scales import Budget, Footprint, Scale
from musaagent.tools.scaling import Role, SizeConstant, propose_scalings
from musaagent.tools.trace import Traced, shape_text, trace
from musaagent.tools.traps import dead_parameters, graph_traps, probe_traps

_UNTRACED_FLOPS = 64
"""Operations for each element, where an op cannot be traced."""

_SEARCH_S = 20.0
_LEAST_SEARCH_S = 4.0
"""CPU seconds for all searches of a task together, and for the last one at least."""

BUDGETS = {"run": scales.RUN, "check": scales.CHECK, "large": scales.LARGE, "gpu": scales.GPU}
"""The scales that a worker opens, beside `own`."""


@dataclass
class TaskScales:
    """A task's own trace, and the way from it to smaller sizes.

    Raises TaskCodeError where the task's own code fails at its own sizes (on fake tensors).
    """

    source: str
    name: str = "task"
    own: Traced = field(init=False)
    constants: tuple[SizeConstant, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.own = trace(self.source, name=self.name)
        self.constants = propose_scalings(self.source)
        self._deadline = time.process_time() + _SEARCH_S
        self._traced: dict[frozenset[tuple[str, int]], Traced] = {}
        self._footprints: dict[frozenset[tuple[str, int]], Footprint | None] = {}

    def scale(self, budget: Budget) -> Scale:
        """The sizes for a budget: the task's own where they meet it."""
        left = max(_LEAST_SEARCH_S, self._deadline - time.process_time())
        constants = self.constants
        if budget in (scales.RUN, scales.CHECK) and all(len(m.shape) <= 2 for m in self.own.inputs):
            # The batch is the rows of a matrix, which kernels tile as they tile the columns.
            constants = tuple(
                replace(c, role=Role.SIZE) if c.role is Role.BATCH else c for c in constants
            )
        return scales.choose(constants, footprint(self.own), self.measure, budget, left)

    def traced(self, overrides: Mapping[str, int]) -> Traced:
        if not overrides:
            return self.own
        key = frozenset(overrides.items())
        if key not in self._traced:
            self._traced[key] = trace(self.source, overrides, name=self.name)
        return self._traced[key]

    def model(self, overrides: Mapping[str, int]) -> ReferenceModel:
        return ReferenceModel(self.source, overrides, name=self.name)

    def pairs(self, overrides: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """Name -> (own, scaled), in the order of the file."""
        return {c.name: (c.value, overrides[c.name]) for c in self.constants if c.name in overrides}

    def measure(self, overrides: Mapping[str, int]) -> Footprint | None:
        """What it takes with these sizes; None where it does not run or is another op."""
        key = frozenset(overrides.items())
        if key not in self._footprints:
            self._footprints[key] = self._checked_footprint(overrides)
        return self._footprints[key]

    def _checked_footprint(self, overrides: Mapping[str, int]) -> Footprint | None:
        try:
            traced = self.traced(overrides)
            if self.own.graph is not None:
                if traced.graph is None:
                    return None
                if different_meaning(self.own.graph, traced.graph):
                    return None
            found = footprint(traced)
            if found.within(scales.RUN):
                # Fake tensors have no values: a label beyond the scaled classes shows only here.
                model = self.model(overrides)
                model.run(model.construct(0), model.inputs(0), 0)
        except TaskCodeError:
            return None
        return found


def footprint(traced: Traced) -> Footprint:
    """Operations, and elements of inputs, parameters and outputs."""
    count = sum(elements(m) for m in (*traced.inputs, *traced.outputs))
    if traced.graph is None:
        return Footprint(_UNTRACED_FLOPS * count, count)
    count += sum(elements(p.meta) for p in traced.graph.parameters)
    return Footprint(flops(traced.graph), count)


def plan_task(source: str, *, name: str = "task", probe: bool = True) -> Plan:
    """Everything that is known of a task before a candidate is written.

    `probe` also asks the reference what would pass without the work. Raises TaskCodeError.
    """
    task = TaskScales(source, name)
    run = task.scale(scales.RUN)
    check = task.scale(scales.CHECK) if run.reached else run
    own, scaled = task.own, task.traced(run.overrides)
    graph = own.graph
    if scaled.graph is None:
        # What cannot be traced may be a forward that fails; a real run tells.
        model = task.model(run.overrides)
        model.run(model.construct(0), model.inputs(0), 0)
    traps = [*_graph_traps(own), *(_probed(task, run, check) if probe else ())]
    return Plan(
        task=content_hash(source),
        graph=graph,
        scaled_graph=scaled.graph,
        trace_error=own.error,
        scaling=task.pairs(run.overrides),
        scaling_note="" if run.reached else _note(run),
        check_graph=task.traced(check.overrides).graph,
        check_scaling=task.pairs(check.overrides),
        check_shapes=_shapes(task.traced(check.overrides)),
        input_shapes=_shapes(own),
        scaled_shapes=_shapes(scaled),
        output_shapes=tuple(shape_text(m) for m in own.outputs),
        init_inputs=own.init_inputs,
        flops=0 if graph is None else flops(graph),
        least_bytes=0 if graph is None else least_bytes(graph),
        training=own.training,
        traps=tuple(traps),
    )


def _graph_traps(own: Traced) -> Iterator[Trap]:
    if own.graph is not None:
        yield from graph_traps(
            own.graph,
            flops(own.graph),
            least_bytes(own.graph),
            asked_for_tf32=own.asked_for_tf32,
        )


def _probed(task: TaskScales, run: Scale, check: Scale) -> Iterator[Trap]:
    probe = task.scale(scales.PROBE) if run.reached else run
    try:
        traps = list(probe_traps(task.model(probe.overrides)))
    except TaskCodeError:
        # Chosen on fake tensors alone; the sizes of the run are known to work.
        traps = list(probe_traps(task.model(run.overrides)))
    yield from traps
    yield from dead_parameters(task.model(check.overrides))
    yield from dead_steps(task.model(check.overrides))


def _shapes(traced: Traced) -> tuple[str, ...]:
    return tuple(shape_text(m) for m in traced.inputs)


def _note(run: Scale) -> str:
    return (
        f"no choice of the file's size constants brings it under {scales.RUN.flops:.0e} operations"
        f" and {scales.RUN.elements:.0e} elements; the smallest that runs takes"
        f" {run.footprint.flops:.2g} and {run.footprint.elements:.2g}"
    )
