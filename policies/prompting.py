"""Prompts: the files of `prompts/`, rendered strictly, and the facts that go into them."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound, meta

from musaagent.policies.policy import PolicyRequest
from musaagent.policies.settings import ServedSettings
from musaagent.tools.opgraph import GraphValue, OpGraph, Plan

Profile = Literal["musacoder", "general"]
Dialect = Literal["cuda", "musa"]

# Traps that tell how a verifier could be fooled are no help for an honest kernel.
_TRAPS_TO_TELL = frozenset(
    {"train_mode_batchnorm", "int32_overflow", "grid_limit", "tf32_reference"}
)
_MOST_VALUES = 24


class _Files(BaseLoader):
    """Prompt files of the package, wherever it is installed."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Any]:
        file = files("musaagent.policies") / "prompts" / template
        if not file.is_file():
            raise TemplateNotFound(template)
        return file.read_text(encoding="utf-8"), None, None


@cache
def _environment() -> Environment:
    return Environment(loader=_Files(), undefined=StrictUndefined, keep_trailing_newline=False)


def render(name: str, **values: Any) -> str:
    """A prompt file with its variables filled in. Raises for one that is missing or not used."""
    environment = _environment()
    source, _, _ = _Files().get_source(environment, name)
    wanted = meta.find_undeclared_variables(environment.parse(source))
    if wanted != values.keys():
        raise ValueError(f"prompt {name}: needs {sorted(wanted)}, got {sorted(values)}")
    return environment.get_template(name).render(values).strip()


def prompt_text(name: str) -> str:
    return (files("musaagent.policies") / "prompts" / name).read_text(encoding="utf-8")


def profile_of(settings: ServedSettings) -> Profile:
    if settings.profile != "auto":
        return settings.profile
    return "musacoder" if "musacoder" in settings.model.lower() else "general"


def dialect_of(settings: ServedSettings, target: str) -> Dialect:
    if settings.dialect != "auto":
        return settings.dialect
    return "musa" if target == "musa" else "cuda"


def task_prompt(request: PolicyRequest, settings: ServedSettings) -> str:
    """The first message of a conversation."""
    profile, dialect = profile_of(settings), dialect_of(settings, request.target)
    values: dict[str, Any] = {
        "reference": _with_newline(request.task_source),
        "example_reference": prompt_text("example_reference.txt"),
        "example_answer": prompt_text(f"example_answer.{dialect}.txt"),
    }
    if profile == "general":
        values["facts"] = "\n".join(f"- {line}" for line in fact_lines(request.plan))
        values["limits"] = "\n".join(f"- {line}" for line in _limits(dialect, request.warp_size))
    elif dialect == "musa":
        values["warp_size"] = request.warp_size
    return render(f"{profile}.{dialect}.jinja", **values)


def feedback_prompt(round_number: int, phase: str, feedback: str) -> str:
    """The message after an answer, with the header that MusaCoder was trained with."""
    return render("feedback.jinja", round=round_number, phase=phase, feedback=feedback)


def fact_lines(plan: Plan) -> Iterator[str]:
    """Shapes, strides and dtypes of every tensor, the work, and what to mind."""
    if plan.graph is not None:
        yield from _tensor_lines(plan.graph)
    else:
        yield f"inputs: {', '.join(plan.input_shapes) or 'none'}"
    yield f"outputs: {', '.join(plan.output_shapes) or 'none'}"
    if plan.init_inputs:
        yield f"arguments of __init__: {plan.init_inputs}"
    yield f"the module runs in {'train' if plan.training else 'eval'} mode"
    if plan.flops:
        yield f"work: {plan.flops:,} FLOPs; at least {plan.least_bytes:,} bytes must move"
    for trap in plan.traps:
        if trap.name in _TRAPS_TO_TELL:
            yield f"mind: {trap.message}"


def _tensor_lines(graph: OpGraph) -> Iterator[str]:
    groups = (("input", graph.inputs), ("parameter", graph.parameters), ("buffer", graph.buffers))
    for kind, values in groups:
        for value in values[:_MOST_VALUES]:
            yield f"{kind} {_value(value)}"
        if len(values) > _MOST_VALUES:
            yield f"and {len(values) - _MOST_VALUES} more of kind {kind}"


def _value(value: GraphValue) -> str:
    tensor = value.meta
    return (
        f"`{value.path or value.name}`: shape {list(tensor.shape)}, stride {list(tensor.stride)}, "
        f"dtype {tensor.dtype}"
    )


def _limits(dialect: Dialect, warp_size: int) -> Iterator[str]:
    yield f"a warp has {warp_size} lanes"
    yield "a block has at most 1024 threads"
    yield "grid: at most 2147483647 blocks in x, 65535 in y and in z"
    if dialect != "musa":
        yield "static shared memory: at most 48 KiB a block"
        return
    # S80 and S4000 have 128 lanes and little shared memory, the S5000 has 32 lanes and much.
    kib = 28 if warp_size == 128 else 192
    yield f"shared memory: at most {kib} KiB a block"
    yield "count lanes and warps by warpSize, never by 32; shuffle offsets start at warpSize / 2"
    yield "compiler: mcc; device sources are MUSA C++; no PTX"


def _with_newline(text: str) -> str:
    return text.rstrip("\n") + "\n"
