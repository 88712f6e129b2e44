"""What is to be said of a task before anyone writes a kernel for it."""

from dataclasses import dataclass

from musaagent.tools.opgraph import Plan, Trap

_UNFIT = {
    "zeros_pass": "scale the tolerance to the output, or draw larger inputs",
    "constant_output": "draw inputs that the output depends on",
    "identity_passes": "draw inputs that the op changes, as randn instead of rand",
    "dead_parameter": "nothing checks how a kernel uses it",
    "random_forward": "set dropout to 0 or call eval() in the constructor",
    "too_small_to_time": "use larger shapes",
}
"""Traps that let a wrong kernel pass or make a measurement void, with what to do."""


@dataclass(frozen=True)
class LintReport:
    """`warnings` let a wrong kernel pass or void a measurement; `notes` are to be minded."""

    warnings: tuple[Trap, ...]
    notes: tuple[Trap, ...]
    refused: bool
    """Strict mode refuses a task with warnings, and one that cannot be traced."""
    text: str


def lint(plan: Plan, *, name: str = "task", strict: bool = False) -> LintReport:
    """Sort the plan's traps and say all that was measured, for a person."""
    warnings = tuple(t for t in plan.traps if t.name in _UNFIT)
    notes = tuple(t for t in plan.traps if t.name not in _UNFIT)
    refused = strict and bool(warnings or plan.trace_error)
    lines = [name, *_facts(plan), *_scales(plan)]
    if plan.trace_error:
        lines.append(f"  warning  not traced: {plan.trace_error}")
    lines += [f"  warning  {t.name}: {t.message}; {_UNFIT[t.name]}" for t in warnings]
    lines += [f"  note     {t.name}: {t.message}" for t in notes]
    lines.append(_verdict(warnings, notes, plan, refused=refused))
    return LintReport(warnings, notes, refused, "\n".join(lines))


def _facts(plan: Plan) -> list[str]:
    lines = [
        f"  inputs   {_listed(plan.input_shapes)}",
        f"  outputs  {_listed(plan.output_shapes)}",
    ]
    if plan.graph is not None:
        scalars = plan.graph.scalar_inputs
        if scalars:
            lines.append(f"  scalars  {', '.join(scalars)}")
        parameters = [f"{p.path} {list(p.meta.shape)}" for p in plan.graph.parameters]
        if parameters:
            lines.append(f"  weights  {_listed(parameters)}")
        calls = [node.op for node in plan.graph.nodes]
        lines.append(f"  calls    {_listed(calls)}")
        intensity = plan.flops / plan.least_bytes if plan.least_bytes else 0.0
        lines.append(
            f"  work     {_figure(plan.flops, 'flop')}, at least {_figure(plan.least_bytes, 'B')}"
            f" moved, {intensity:.3g} flop/B"
        )
    lines.append(f"  mode     {'train' if plan.training else 'eval'}")
    return lines


def _scales(plan: Plan) -> list[str]:
    lines = []
    for label, scaling, shapes in (
        ("cpu run", plan.scaling, plan.scaled_shapes),
        ("checked", plan.check_scaling, plan.check_shapes),
    ):
        if scaling:
            changes = ", ".join(f"{k} {own} -> {new}" for k, (own, new) in scaling.items())
            lines.append(f"  {label}  {_listed(shapes)} ({changes})")
        else:
            lines.append(f"  {label}  at its own shapes")
    if plan.scaling_note:
        lines.append(f"  note     {plan.scaling_note}")
    return lines


def _verdict(
    warnings: tuple[Trap, ...], notes: tuple[Trap, ...], plan: Plan, *, refused: bool
) -> str:
    count = len(warnings) + bool(plan.trace_error)
    words = f"{count} warning{'' if count == 1 else 's'}, {len(notes)} to mind"
    return f"  {'refused (strict): ' if refused else ''}{words}"


def _listed(values: list[str] | tuple[str, ...], most: int = 6) -> str:
    shown = ", ".join(values[:most])
    return f"{shown} and {len(values) - most} more" if len(values) > most else shown or "none"


def _figure(value: int, unit: str) -> str:
    for factor, prefix in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value} {unit}"
